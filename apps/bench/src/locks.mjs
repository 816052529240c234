// Locks side by side: uncontended and contended, rounds interleaved, medians. Writes docs/benchmarks-locks.md.
// @ts-check
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { floor, peers } from './lock-peers.mjs'
import { commandCalls, openRedis } from './redis.mjs'

const ROUNDS = 3
const SERIAL = 1_000
const WAITERS = 200
const PROCESSES = 10
const HOLD_MS = 1

/** @typedef {import('./lock-peers.mjs').Peer} Peer */

const redis = await openRedis()
const admin = new Redis(redis.url)

/** One client takes and frees one lock after another. @param {Peer} peer */
async function uncontended(peer) {
  const locks = peer.open(redis.url)
  for (let i = 0; i < 50; i++) await (await locks.acquire(`warm:${i}`))()
  await admin.config('RESETSTAT')
  const startedAt = performance.now()
  for (let i = 0; i < SERIAL; i++) await (await locks.acquire(`free:${i % 100}`))()
  const seconds = (performance.now() - startedAt) / 1000
  const commands = (await commandCalls(admin, peer.commands)) / SERIAL
  await locks.close()
  return { locksPerSecond: SERIAL / seconds, commands }
}

/** Waiters of several processes (here: connections of their own) on one key. @param {Peer} peer */
async function contended(peer) {
  const all = Array.from({ length: PROCESSES }, () => peer.open(redis.url))
  for (const [i, locks] of all.entries()) await (await locks.acquire(`warm:${i}`))()
  await admin.config('RESETSTAT')
  const startedAt = performance.now()
  /** @type {number[]} */
  const waits = []
  let inside = 0
  let overlaps = 0
  const one = async (/** @type {number} */ i) => {
    const release = await /** @type {any} */ (all[i % PROCESSES]).acquire('hot')
    waits.push(performance.now() - startedAt)
    inside += 1
    if (inside > 1) overlaps += 1
    await sleep(HOLD_MS)
    inside -= 1
    await release()
  }
  await Promise.all(Array.from({ length: WAITERS }, (_, i) => one(i)))
  const totalMs = performance.now() - startedAt
  const commands = (await commandCalls(admin, peer.commands)) / WAITERS
  await Promise.all(all.map((locks) => locks.close()))
  const order = fairness(waits)
  return { totalMs, commands, overlaps, order }
}

/** Everybody came at once, so a fair lock hands out its turns evenly: longest gap between two grants ÷ median gap. */
function fairness(/** @type {number[]} */ waits) {
  const gaps = waits.slice(1).map((wait, i) => wait - (waits[i] ?? 0))
  return Math.max(...gaps) / Math.max(0.01, median(gaps))
}

function median(/** @type {number[]} */ values) {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

/** @type {Map<string, { free: Array<Awaited<ReturnType<typeof uncontended>>>, hot: Array<Awaited<ReturnType<typeof contended>>> }>} */
const results = new Map([floor, ...peers].map((peer) => [peer.name, { free: [], hot: [] }]))
for (let round = 1; round <= ROUNDS; round++) {
  for (const peer of [floor, ...peers]) {
    results.get(peer.name)?.free.push(await uncontended(peer))
    if (peer !== floor) results.get(peer.name)?.hot.push(await contended(peer))
    console.error(`round ${round}: ${peer.name}`)
  }
}

const floorRate = median(
  (results.get(floor.name)?.free ?? []).map(({ locksPerSecond }) => locksPerSecond),
)
const rows = [...results].map(([name, { free, hot }]) => {
  const rate = median(free.map(({ locksPerSecond }) => locksPerSecond))
  const cells = [
    name,
    Math.round(rate),
    (rate / floorRate).toFixed(2),
    median(free.map(({ commands }) => commands)).toFixed(2),
  ]
  if (hot.length === 0) return [...cells, '–', '–', '–', '–']
  return [
    ...cells,
    Math.round(median(hot.map(({ totalMs }) => totalMs))),
    median(hot.map(({ commands }) => commands)).toFixed(2),
    Math.round(median(hot.map(({ order }) => order))),
    hot.reduce((sum, { overlaps }) => sum + overlaps, 0),
  ]
})

const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
const text = `# Locks, side by side

Written by \`npm run bench:locks\` at ${commit}: Redis ${redis.version}, Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model.trim()}.
Medians of ${ROUNDS} interleaved rounds in one run; compare the ratios, not the absolute figures.

- **Free**: one client takes and frees ${SERIAL} locks one after another.
- **Hot**: ${WAITERS} waiters on ${PROCESSES} connections want one lock at once, each holds it for ${HOLD_MS} ms.
- **Commands**: what clients send, per lock. **Longest gap**: longest time between two grants ÷ the median one; a
  fair queue stays low, back-off lets the lock lie idle. **Overlaps**: two holders at once.

| lock | free: locks/s | ÷ floor | commands | hot: total ms | commands | longest gap | overlaps |
|---|--:|--:|--:|--:|--:|--:|--:|
${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}

The floor neither waits nor checks who frees the lock. A lock that renews, fences and queues pays for its scripts on the
server and for its timers here: uncontended we are expected to lose against a bare SET.
`
writeFileSync(new URL('../../../docs/benchmarks-locks.md', import.meta.url), text)
console.log(text)
admin.disconnect()
await redis.stop()
