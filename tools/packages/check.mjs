// Checks what the packages would publish: publint and attw on each tarball, knip on the repository,
// size-limit on bundles. The tools are installed at the first run.
// @ts-check
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installOnDemand } from '../on-demand.mjs'
import { packAll } from './pack.mjs'

const here = fileURLToPath(new URL('.', import.meta.url))
const root = join(here, '../..')

/** @typedef {{ name: string, args: string[], cwd: string }} Tool */

/**
 * Runs a tool, and prints its output only if it fails.
 * @param {Tool} tool
 * @returns {Promise<void>}
 */
function run({ name, args, cwd }) {
  const path = join(here, 'node_modules/.bin', name)
  return new Promise((resolve) => {
    execFile(path, args, { cwd }, (error, stdout, stderr) => {
      if (error) {
        console.error(`${name} ${args.join(' ')} ended with ${error.code}:\n${stdout}${stderr}`)
        process.exitCode = 1
      }
      resolve()
    })
  })
}

installOnDemand(here)
const folder = mkdtempSync(join(tmpdir(), 'stampede-tarballs-'))
try {
  const tools = packAll(folder).flatMap(({ tarball, manifest }) => [
    { name: 'publint', args: [tarball, '--strict'], cwd: root },
    // attw checks types, and a program without entry points has none.
    ...(manifest.exports
      ? [{ name: 'attw', args: [tarball, '--profile', 'strict', '--no-color'], cwd: root }]
      : []),
  ])
  tools.push({ name: 'knip', args: ['--no-progress', '--no-config-hints'], cwd: root })
  tools.push({ name: 'size-limit', args: [], cwd: here })
  // Two at a time: each is a process of its own, and most of its time is its start.
  const worker = async () => {
    for (let tool = tools.pop(); tool; tool = tools.pop()) await run(tool)
  }
  await Promise.all([worker(), worker()])
} finally {
  rmSync(folder, { recursive: true })
}
if (process.exitCode === undefined) console.log('publint, attw, knip and size-limit found nothing')
