// Runs the adapters' tests on the other supported versions of Node: `npm run test:nodes [-- 22
// 24]`. Their binaries come from the npm registry, into a folder that is deleted again. `npm test`
// does not need them.
// @ts-check
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const versions = process.argv.length > 2 ? process.argv.slice(2) : ['22', '24', '26']
const files = {
  unit: [
    'packages/node-http',
    'packages/express',
    'packages/koa',
    'packages/hono',
    'packages/otel',
  ],
  beside: ['test/contracts/cache-adapters', 'test/contracts/middleware-orders', 'test/http/query'],
  older: ['test/contracts/cache-adapters'],
}

const folder = mkdtempSync(join(tmpdir(), 'stampede-nodes-'))
try {
  // The package that the npm package `node` would install for this machine in a script of its own.
  const binary = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`
  const packages = versions.map((version) => `node${version}@npm:${binary}@${version}`)
  const install = ['install', '--prefix', folder, '--no-save', '--ignore-scripts', ...packages]
  execFileSync('npm', install, { stdio: ['ignore', 'ignore', 'inherit'] })
  for (const version of versions) {
    const node = join(folder, 'node_modules', `node${version}`, 'bin', 'node')
    console.log(`On Node ${execFileSync(node, ['--version'], { encoding: 'utf8' })}`)
    for (const [project, paths] of Object.entries(files)) {
      const vitest = join(root, 'node_modules/vitest/vitest.mjs')
      const args = [vitest, 'run', '--project', project, ...paths]
      const { status } = spawnSync(node, args, { cwd: root, stdio: 'inherit' })
      if (status !== 0) process.exitCode = 1
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
