// Packs every publishable package into a folder, as `npm publish` would. Run as a program (`npm run
// pack`), it writes to the folder `tarballs`.
// @ts-check
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
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

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = fileURLToPath(new URL('../../tarballs', import.meta.url))
  mkdirSync(folder, { recursive: true })
  for (const { tarball } of packAll(folder)) console.log(relative('', tarball))
}
