// Measures the CPU time of the server on each path: `npm run bench:paths [-- ID... --quick --out
// FOLDER]`. Writes results/benchmarks-paths.md.
import { runServers } from '../compare/run-servers.ts'
import { paths } from '../compare/tables.ts'
import { fillPage, table, whole } from '../lib/markdown.ts'
import { startRedis } from '../lib/redis.ts'
import { median, ratio, withFloors } from '../lib/rows.ts'
import { publish, RESULTS, readArguments, runInfo, valuesOf } from '../lib/run.ts'

const { folder, ids, isQuick } = readArguments(process.argv.slice(2))
const [rounds, roundMs, warmUpMs] = isQuick ? [1, 300, 500] : [11, 800, 3_000]
const info = runInfo()
const redis = await startRedis()
const plan = { title: 'paths', rounds, roundMs, warmUpMs, redisUrl: redis.url }
const rows = await runServers({ ...plan, rows: withFloors(paths, ids) })
await redis[Symbol.asyncDispose]()

const cells = rows.map((row) => {
  const { id, name, floor, wanted } = row
  const seen = ratio(rows, id, floor, 'cpuMicros')
  const isMet = wanted !== undefined && seen !== undefined && seen <= wanted
  return [
    ...[name, median(row, 'cpuMicros').toFixed(0), seen?.toFixed(2) ?? ''],
    ...(wanted === undefined ? ['', ''] : [`≤ ${wanted}`, isMet ? 'met' : '**not met**']),
    whole(median(row, 'rate')),
  ]
})
const page = fillPage('benchmarks-paths', {
  ...{ ...valuesOf('benchmarks-paths', info), redis: redis.version },
  ...{ rounds: String(rounds), roundMs: String(roundMs) },
  table: table(['path', 'CPU µs', '÷ route', 'wanted', '', 'requests/s'], cells),
})
// A part of a run, or a quick run, is printed and not published.
const target = folder ?? (isQuick || ids.size > 0 ? undefined : RESULTS)
if (target) publish(target, 'benchmarks-paths', page, { ...info, redis: redis.version, rows })
console.log(page)
