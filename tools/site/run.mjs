// `npm run docs` and `npm run docs:build`: writes the API reference, and starts VitePress. It
// installs the packages first. A build fails if a public name has no docstring.
// @ts-check
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installOnDemand } from '../on-demand.mjs'

const here = fileURLToPath(new URL('.', import.meta.url))
const [command = 'dev', ...args] = process.argv.slice(2)

installOnDemand(here)
const { writeReference } = await import('./api.mjs')
const undocumented = writeReference(join(here, 'api'))
for (const name of undocumented) console.error(`${name} has no docstring`)
if (command === 'build' && undocumented.length > 0) process.exit(1)
const vitepress = join(here, 'node_modules/vitepress/bin/vitepress.js')
const { status } = spawnSync(process.execPath, [vitepress, command, here, ...args], {
  stdio: 'inherit',
})
process.exitCode = status ?? 1
