// Measures what the packages of docs/compare.md take on disk: `npm run bench:sizes`. It installs
// each alone in an empty folder and writes apps/bench/results/sizes.json.
// @ts-check
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installCommand, packAll } from './pack.mjs'

const BENCH = fileURLToPath(new URL('../../apps/bench/', import.meta.url))
const versions = JSON.parse(readFileSync(join(BENCH, 'package.json'), 'utf8')).dependencies
const bento = JSON.parse(readFileSync(join(BENCH, 'bentocache/package.json'), 'utf8')).dependencies
const of = (/** @type {string} */ name) => `${name}@${versions[name]}`

/** Packages that are installed together. Ours are names of tarballs. */
const SETS = {
  'stampede express redis': { ours: ['express', 'redis'], others: [of('ioredis')] },
  'stampede core': { ours: ['core'], others: [] },
  'stampede locks redis': { ours: ['locks', 'redis'], others: [of('ioredis')] },
  apicache: { ours: [], others: [of('apicache')] },
  'express-redis-cache': { ours: [], others: [of('express-redis-cache')] },
  'koa-cash': { ours: [], others: [of('koa-cash')] },
  'cache-manager': { ours: [], others: [of('cache-manager'), of('@keyv/redis')] },
  bentocache: { ours: [], others: [`bentocache@${bento.bentocache}`, `ioredis@${bento.ioredis}`] },
  redlock: { ours: [], others: [of('redlock'), `ioredis@${bento.ioredis}`] },
  'redlock 4': { ours: [], others: ['redlock@4.2.0'] },
  'express-idempotency': { ours: [], others: [of('express-idempotency')] },
}

const folder = mkdtempSync(join(tmpdir(), 'stampede-sizes-'))
try {
  const packed = packAll(folder)
  const sizes = Object.entries(SETS).map(([name, { ours, others }]) => {
    const app = mkdtempSync(join(folder, 'app-'))
    writeFileSync(join(app, 'package.json'), '{"private":true}')
    const own = ours.length > 0 ? installCommand(packed, ours, app).split(' ').slice(2) : []
    // Peers such as Express are not counted, because an app has them already.
    const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--legacy-peer-deps']
    execFileSync('npm', ['install', ...flags, ...own, ...others], { cwd: app, stdio: 'pipe' })
    const files = readdirSync(join(app, 'node_modules'), { recursive: true, encoding: 'utf8' })
    const stats = files.map((file) => statSync(join(app, 'node_modules', file)))
    const bytes = stats.reduce((sum, each) => sum + (each.isFile() ? each.size : 0), 0)
    const { packages } = JSON.parse(readFileSync(join(app, 'package-lock.json'), 'utf8'))
    const size = { name, with: others, packages: Object.keys(packages).length - 1, bytes }
    console.error(`${name}: ${size.packages} packages, ${(bytes / 1e6).toFixed(1)} MB`)
    return size
  })
  const out = { date: new Date().toISOString().slice(0, 10), node: process.version, sizes }
  writeFileSync(join(BENCH, 'results/sizes.json'), `${JSON.stringify(out, undefined, 1)}\n`)
} finally {
  rmSync(folder, { recursive: true })
}
