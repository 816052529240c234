// Packs every publishable package into a folder, as `npm publish` would.
// @ts-check
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const packages = fileURLToPath(new URL('../../packages/', import.meta.url))

/**
 * @typedef {object} Manifest
 * @property {string} name
 * @property {Record<string, unknown>} [exports]
 * @property {Record<string, string>} [dependencies]
 * @property {Record<string, string>} [peerDependencies]
 */
/**
 * @param {string} destination
 * @returns {{ manifest: Manifest, tarball: string, files: string[] }[]}
 */
export function packAll(destination) {
  const folders = readdirSync(packages).map((name) => join(packages, name))
  const args = ['pack', ...folders, '--json', '--ignore-scripts', '--pack-destination', destination]
  const packed = JSON.parse(execFileSync('npm', args, { encoding: 'utf8', stdio: 'pipe' }))
  // npm 11 returns a list, later versions an object by name.
  return Object.values(packed).map(({ name, filename, files }) => ({
    manifest: JSON.parse(
      readFileSync(join(packages, name.replace('@stampede/', ''), 'package.json'), 'utf8'),
    ),
    tarball: join(destination, filename),
    files: files.map((/** @type {{ path: string }} */ { path }) => path),
  }))
}
