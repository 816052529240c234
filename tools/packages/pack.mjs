// Packs every publishable package into a folder, as `npm publish` would. Run as a program, it
// writes to the folder `tarballs`. `npm run pack -- express redis` also prints the command that
// installs these packages in an app, with all packages of ours that they need.
// @ts-check
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const packages = fileURLToPath(new URL('../../packages/', import.meta.url))
const root = join(packages, '..')

/**
 * @typedef {object} Manifest
 * @property {string} name
 * @property {Record<string, unknown>} [exports]
 * @property {Record<string, string>} [dependencies]
 * @property {Record<string, string>} [peerDependencies]
 * @property {Record<string, { optional?: boolean }>} [peerDependenciesMeta]
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

/**
 * The command that installs packages from their tarballs, in sh, cmd and PowerShell. It has every
 * package of ours that they need, because npm would look for the others in the registry.
 * @param {ReturnType<typeof packAll>} packed
 * @param {string[]} names such as `express`
 * @param {string} caller the folder of the app
 */
export function installCommand(packed, names, caller) {
  const byName = new Map(packed.map((each) => [each.manifest.name, each]))
  /** @type {Set<string>} */
  const tarballs = new Set()
  /** @param {string} name */
  const add = (name) => {
    const { tarball, manifest } = byName.get(name) ?? {}
    if (tarball === undefined || tarballs.has(tarball)) return
    const needed = { ...manifest?.peerDependencies, ...manifest?.dependencies }
    for (const each of Object.keys(needed))
      if (manifest?.peerDependenciesMeta?.[each]?.optional !== true) add(each)
    tarballs.add(tarball)
  }
  for (const name of names) {
    const known = `@stampede/${name.replace('@stampede/', '')}`
    if (!byName.has(known)) {
      const all = [...byName.keys()].map((each) => each.replace('@stampede/', '')).join(', ')
      throw new Error(`unknown package ${name}; use one of ${all}`)
    }
    add(known)
  }
  // In the clone itself, a relative path would be wrong in the app.
  const isInClone = !relative(root, caller).startsWith('..')
  const paths = [...tarballs].map((path) => {
    const shown = isInClone ? path : relative(caller, path)
    const plain = shown.split(sep).join('/')
    return plain.includes(' ') ? `"${plain}"` : plain
  })
  return ['npm install', ...paths].join(' ')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = join(root, 'tarballs')
  mkdirSync(folder, { recursive: true })
  const packed = packAll(folder)
  const names = process.argv.slice(2)
  if (names.length === 0) for (const { tarball } of packed) console.log(relative('', tarball))
  // npm runs scripts in the folder of the clone.
  else console.log(installCommand(packed, names, process.env.INIT_CWD ?? process.cwd()))
}
