// Checks what the packages would publish: publint and attw on each tarball, knip on the repository,
// size-limit on bundles. The tools are installed at the first run.
// @ts-check
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installOnDemand } from '../on-demand.mjs'
import { packAll } from './pack.mjs'

const here = fileURLToPath(new URL('.', import.meta.url))
const root = join(here, '../..')

/**
 * Runs a tool, and prints its output only if it fails.
 * @param {string} name
 * @param {string[]} args
 * @param {string} cwd
 */
function run(name, args, cwd) {
  const tool = join(here, 'node_modules/.bin', name)
  const { status, stdout, stderr } = spawnSync(tool, args, { cwd, encoding: 'utf8' })
  if (status === 0) return
  console.error(`${name} ${args.join(' ')} ended with ${status}:\n${stdout}${stderr}`)
  process.exitCode = 1
}

installOnDemand(here)
const folder = mkdtempSync(join(tmpdir(), 'stampede-tarballs-'))
try {
  for (const { tarball, manifest } of packAll(folder)) {
    run('publint', [tarball, '--strict'], root)
    // attw checks types, and a program without entry points has none.
    if (manifest.exports) run('attw', [tarball, '--profile', 'strict', '--no-color'], root)
  }
} finally {
  rmSync(folder, { recursive: true })
}
run('knip', ['--no-progress', '--no-config-hints'], root)
run('size-limit', [], here)
if (process.exitCode === undefined) console.log('publint, attw, knip and size-limit found nothing')
