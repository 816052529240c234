// Locks side by side, uncontended and contended: `npm run bench:locks [-- ID... --quick --out
// FOLDER]`. Writes results/benchmarks-locks.md.
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { fillPage, table } from '../lib/markdown.ts'
import { commandCalls, startRedis } from '../lib/redis.ts'
import { median, ratio, valuesOf as roundsOf, runRows, withFloors } from '../lib/rows.ts'
import { publish, RESULTS, readArguments, runInfo, valuesOf } from '../lib/run.ts'
import { medianOf } from '../lib/statistics.ts'
import { type LockPeer, peers } from './peers.ts'

const { folder, ids, isQuick } = readArguments(process.argv.slice(2))
const [rounds, serial, waiters] = isQuick ? [1, 100, 20] : [3, 1_000, 200]
const PROCESSES = 10
const HOLD_MS = 1

const info = runInfo()
const redis = await startRedis()
const admin = new Redis(redis.port)

/** One client takes and releases one lock after another. */
async function uncontended(peer: LockPeer) {
  const locks = peer.open(redis.url)
  for (let i = 0; i < 50; i++) await (await locks.acquire(`warm:${i}`))()
  await admin.config('RESETSTAT')
  const since = performance.now()
  for (let i = 0; i < serial; i++) await (await locks.acquire(`free:${i % 100}`))()
  const rate = (serial * 1_000) / (performance.now() - since)
  const commands = (await commandCalls(admin, peer.commands)) / serial
  await locks.close()
  return { rate, commands }
}

/** Waiters of several processes compete for one key. Each process is a connection here. */
async function contended(peer: LockPeer) {
  const all = Array.from({ length: PROCESSES }, () => peer.open(redis.url))
  for (const [i, locks] of all.entries()) await (await locks.acquire(`warm:${i}`))()
  await admin.config('RESETSTAT')
  const since = performance.now()
  const waitsMs: number[] = []
  let [inside, overlaps] = [0, 0]
  const one = async (i: number): Promise<void> => {
    const release = await all[i % PROCESSES]?.acquire('hot')
    waitsMs.push(performance.now() - since)
    inside += 1
    if (inside > 1) overlaps += 1
    await sleep(HOLD_MS)
    inside -= 1
    await release?.()
  }
  await Promise.all(Array.from({ length: waiters }, (_, i) => one(i)))
  const totalMs = performance.now() - since
  const hotCommands = (await commandCalls(admin, peer.commands)) / waiters
  await Promise.all(all.map((locks) => locks.close()))
  // All waiters begin together, so a fair lock has equal gaps between two grants.
  const gaps = waitsMs.slice(1).map((wait, i) => wait - (waitsMs[i] ?? 0))
  const longestGap = Math.max(...gaps) / Math.max(0.01, medianOf(gaps))
  return { totalMs, hotCommands, longestGap, overlaps }
}

const rows = await runRows({
  ...{ title: 'locks', rounds, rows: withFloors(peers, ids) },
  setUp: async (peer) => ({
    async measure() {
      const free = await uncontended(peer)
      return peer.kind === 'floor' ? free : { ...free, ...(await contended(peer)) }
    },
    async [Symbol.asyncDispose]() {},
  }),
})
admin.disconnect()

const cells = rows.map((row) => [
  ...[row.name, median(row, 'rate').toFixed(0)],
  ratio(rows, row.id, row.floor ?? row.id, 'rate')?.toFixed(2) ?? '',
  median(row, 'commands').toFixed(2),
  ...(row.kind === 'floor'
    ? ['–', '–', '–', '–']
    : [
        ...[median(row, 'totalMs').toFixed(0), median(row, 'hotCommands').toFixed(2)],
        median(row, 'longestGap').toFixed(0),
        String(roundsOf(row, 'overlaps').reduce((sum, count) => sum + count, 0)),
      ]),
])
const hot = ['hot: total ms', 'commands', 'longest gap', 'overlaps']
const page = fillPage('benchmarks-locks', {
  ...{ ...valuesOf('benchmarks-locks', info), redis: redis.version },
  ...{ rounds: String(rounds), serial: String(serial), waiters: String(waiters) },
  table: table(['lock', 'free: locks/s', '÷ floor', 'commands', ...hot], cells),
})
await redis[Symbol.asyncDispose]()
// A part of a run, or a quick run, is printed and not published.
const target = folder ?? (isQuick || ids.size > 0 ? undefined : RESULTS)
if (target) publish(target, 'benchmarks-locks', page, { ...info, redis: redis.version, rows })
console.log(page)
