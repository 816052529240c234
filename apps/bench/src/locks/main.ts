// Locks side by side, uncontended and contended: `npm run bench:locks [-- --quick --out FOLDER]`.
// Rounds are interleaved, figures are medians. Writes docs/benchmarks-locks.md.
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { DOCS, publish, rawResultsOf, readArguments } from '../publish.ts'
import { runInfo } from '../run-info.ts'
import { floor, type LockPeer, peers } from './peers.ts'
import { commandCalls, openRedis } from './redis.ts'

// Child processes end when this process emits `exit`.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

const { folder, ids } = readArguments(process.argv.slice(2))
// A short run that only shows that everything works. Its figures mean nothing.
const isQuick = ids.has('--quick')
const [ROUNDS, SERIAL, WAITERS] = isQuick ? [1, 100, 20] : [3, 1_000, 200]
const PROCESSES = 10
const HOLD_MS = 1

interface Free {
  readonly locksPerSecond: number
  readonly commands: number
}

interface Hot {
  readonly totalMs: number
  readonly commands: number
  readonly overlaps: number
  /** Longest gap between two grants ÷ median gap. */
  readonly order: number
  /** Time until each waiter got the lock. All waiters begin together. */
  readonly waitsMs: readonly number[]
}

const info = runInfo()
const redis = await openRedis()
const admin = new Redis(redis.url)

/** One client takes and releases one lock after another. */
async function uncontended(peer: LockPeer): Promise<Free> {
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

/** Waiters of several processes compete for one key. Each process is a connection here. */
async function contended(peer: LockPeer): Promise<Hot> {
  const all = Array.from({ length: PROCESSES }, () => peer.open(redis.url))
  for (const [i, locks] of all.entries()) await (await locks.acquire(`warm:${i}`))()
  await admin.config('RESETSTAT')
  const startedAt = performance.now()
  const waitsMs: number[] = []
  let inside = 0
  let overlaps = 0
  const one = async (i: number): Promise<void> => {
    const release = await all[i % PROCESSES]?.acquire('hot')
    waitsMs.push(performance.now() - startedAt)
    inside += 1
    if (inside > 1) overlaps += 1
    await sleep(HOLD_MS)
    inside -= 1
    await release?.()
  }
  await Promise.all(Array.from({ length: WAITERS }, (_, i) => one(i)))
  const totalMs = performance.now() - startedAt
  const commands = (await commandCalls(admin, peer.commands)) / WAITERS
  await Promise.all(all.map((locks) => locks.close()))
  return { totalMs, commands, overlaps, order: fairness(waitsMs), waitsMs }
}

/**
 * Longest gap between two grants ÷ median gap. All waiters begin together, so a fair lock has equal
 * gaps.
 */
function fairness(waitsMs: readonly number[]): number {
  const gaps = waitsMs.slice(1).map((wait, i) => wait - (waitsMs[i] ?? 0))
  return Math.max(...gaps) / Math.max(0.01, median(gaps))
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

const results = new Map(
  [floor, ...peers].map(({ name }) => [name, { free: [] as Free[], hot: [] as Hot[] }]),
)
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

const text = `# Locks compared

Written by \`npm run bench:locks\` on ${info.date} at ${info.commit}: Redis ${redis.version}, Node ${info.node}, ${info.machine}.
Figures are medians of ${ROUNDS} interleaved rounds. Compare the ratios, not the absolute figures. ${rawResultsOf('benchmarks-locks')}

- **Free**: one client takes and releases ${SERIAL} locks, one after another.
- **Hot**: ${WAITERS} waiters on ${PROCESSES} connections ask for one lock at once. Each holds it for ${HOLD_MS} ms.
- **Commands**: commands that clients send per lock.
- **Longest gap**: the longest time between two grants ÷ the median time. It is low for a fair queue. It is high for
  retries with a delay, because the lock is idle in between.
- **Overlaps**: how often two clients held the lock at once.

| lock | free: locks/s | ÷ floor | commands | hot: total ms | commands | longest gap | overlaps |
|---|--:|--:|--:|--:|--:|--:|--:|
${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}

The floor does not wait, and does not check which client releases the lock. \`@stampede/locks\` renews leases, issues
fences and queues waiters. This takes scripts on the server and timers in the process. So a free lock is expected to be
slower than a bare \`SET\`.
`
const raw = { ...info, redis: redis.version, locks: Object.fromEntries(results) }
if (folder !== undefined) publish(folder, 'benchmarks-locks', text, raw)
// A quick run is printed and not published.
else if (!isQuick) publish(DOCS, 'benchmarks-locks', text, raw)
console.log(text)
admin.disconnect()
await redis[Symbol.asyncDispose]()
