// Runs a benchmark: installs the compared packages if needed, checks types, compiles, starts it.
// Usage: node run.mjs <compare | paths | locks | idempotency | responses | torture> [arguments].
// With `check`, it runs the tests of the bench instead.
// @ts-check
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { copyTables } from '../../tools/evidence.mjs'
import { installOnDemand } from '../../tools/on-demand.mjs'

const HERE = fileURLToPath(new URL('.', import.meta.url))
const PROGRAMS = ['compare', 'paths', 'locks', 'idempotency', 'responses', 'torture']

const [program = ''] = process.argv.splice(2, 1)
if (program !== 'check' && !PROGRAMS.includes(program)) {
  console.error(`bench: no program named "${program}"; one of ${[...PROGRAMS, 'check'].join(', ')}`)
  process.exit(2)
}
installOnDemand(HERE)
// The bench uses the compiler and the Vitest of the repository.
runTool('typescript/bin/tsc', ['-p', HERE])
if (program === 'check') runTool('vitest/vitest.mjs', ['run', ...process.argv.slice(2)])
else {
  await import(`./dist/${program}/main.js`)
  // The pages in docs/evidence have copies of published tables.
  for (const page of copyTables()) console.error(`bench: updated ${page}`)
}

/**
 * @param {string} tool
 * @param {string[]} args
 */
function runTool(tool, args) {
  const path = fileURLToPath(new URL(`../../node_modules/${tool}`, import.meta.url))
  const { status } = spawnSync(process.execPath, [path, ...args], { cwd: HERE, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
