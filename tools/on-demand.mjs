// Installs packages of a folder when they are first used: compared caches, Testcontainers, recheck.
// Such a folder is not a workspace, so `npm install` in a clone does not install its packages.
// @ts-check
import { spawnSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/**
 * Runs `npm install` in a folder if its node_modules is missing or older than its lockfile.
 * @param {string} folder absolute path
 */
export function installOnDemand(folder) {
  if (isInstalled(folder)) return
  const name = relative(ROOT, folder)
  console.error(`Installing the packages of ${name} (only once)`)
  // --no-save: a change in packages/* must not rewrite a lockfile during a run.
  const args = ['install', '--prefix', folder, '--no-save', '--ignore-scripts', '--loglevel=error']
  const { status, error } = spawnSync('npm', args, {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  })
  if (status === 0) return
  const why = error?.message ?? `npm ended with ${status}`
  throw new Error(
    `cannot install the packages of ${name}: ${why}; run npm --prefix ${name} install`,
  )
}

/**
 * Loads a package that only this folder depends on, and installs the folder first if needed.
 * @param {string} folder absolute path
 * @param {string} name
 * @returns {unknown}
 */
export function loadOnDemand(folder, name) {
  installOnDemand(folder)
  return createRequire(join(folder, 'package.json'))(name)
}

/** @param {string} folder */
function isInstalled(folder) {
  // npm writes this file last, so an interrupted install does not count.
  const installedAt = modifiedAt(join(folder, 'node_modules/.package-lock.json'))
  return (
    installedAt !== undefined && installedAt >= (modifiedAt(join(folder, 'package-lock.json')) ?? 0)
  )
}

/** @param {string} path */
const modifiedAt = (path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs
