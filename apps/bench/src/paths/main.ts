// Measures the CPU time of the server on each path: `npm run bench:paths [-- ID... --quick --out
// FOLDER]`. Rounds are interleaved, and a ratio is taken within a round. Writes
// docs/benchmarks-paths.md.
import { startChild } from '../compare/lib/child.ts'
import type { ClosedLoopResult } from '../compare/lib/closed-loop.ts'
import { table, whole } from '../compare/lib/markdown.ts'
import { medianOf, ratios } from '../compare/lib/statistics.ts'
import { DOCS, publish, rawResultsOf, readArguments } from '../publish.ts'
import { runInfo } from '../run-info.ts'
import { startRedis, urlOf } from '../torture/redis-server.ts'
import type { PathLoad } from './load.ts'
import { type Path, paths } from './paths.ts'

// Child processes end when this process emits `exit`.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

const { folder, ids: given } = readArguments(process.argv.slice(2))
const ids = new Set(given)
// A short run that only shows that everything works. Its figures mean nothing.
const isQuick = ids.delete('--quick')
const [ROUNDS, ROUND_MS, WARM_UP_MS] = isQuick ? [1, 300, 500] : [11, 800, 3_000]
/** Load before each round, because the server was idle since its last round. */
const AWAKE_MS = 150

interface Measured {
  readonly cpuMicros: number[]
  readonly rates: number[]
}

const info = runInfo()
const chosen = paths.filter(
  ({ id }) =>
    ids.size === 0 || ids.has(id) || paths.some((path) => ids.has(path.id) && path.of === id),
)
const redis = await startRedis()
const loader = await startChild('../paths/load.js')
const measured = new Map<string, Measured>()
const servers = new Map<string, { port: number; child: Awaited<ReturnType<typeof startChild>> }>()
for (const { id, server, isOverRedis } of chosen) {
  const child = await startChild('../paths/serve.js', [
    server,
    isOverRedis ? urlOf(redis.port) : '',
  ])
  servers.set(id, { child, port: await child.ask<number>('port') })
  measured.set(id, { cpuMicros: [], rates: [] })
}

async function load({ id, request }: Path, durationMs: number): Promise<ClosedLoopResult> {
  const order: PathLoad = { port: servers.get(id)?.port ?? 0, request, durationMs }
  return loader.ask<ClosedLoopResult>('load', order)
}

async function measure(path: Path): Promise<void> {
  const { child } = servers.get(path.id) ?? {}
  await load(path, AWAKE_MS)
  const before = (await child?.ask<number>('cpuMicros')) ?? 0
  const { requests, wrong, durationMs } = await load(path, ROUND_MS)
  const after = (await child?.ask<number>('cpuMicros')) ?? 0
  if (wrong > 0) throw new Error(`${path.id}: ${wrong} of ${requests} responses are wrong`)
  measured.get(path.id)?.cpuMicros.push((after - before) / requests)
  measured.get(path.id)?.rates.push((requests * 1_000) / durationMs)
}

for (const path of chosen) await load(path, WARM_UP_MS)
for (let round = 1; round <= ROUNDS; round++) {
  for (const path of chosen) await measure(path)
  console.error(`paths: round ${round} of ${ROUNDS}`)
}

function rowOf({ id, name, of, wanted }: Path): string[] {
  const { cpuMicros, rates } = measured.get(id) ?? { cpuMicros: [], rates: [] }
  const floor = of === undefined ? undefined : measured.get(of)
  const ratio = floor && medianOf(ratios(cpuMicros, floor.cpuMicros))
  const isMet = ratio !== undefined && wanted !== undefined && ratio <= wanted
  return [
    name,
    medianOf(cpuMicros).toFixed(0),
    ratio?.toFixed(2) ?? '',
    wanted === undefined ? '' : `≤ ${wanted}`,
    wanted === undefined ? '' : isMet ? 'met' : '**not met**',
    whole(medianOf(rates)),
  ]
}

const head = ['path', 'CPU µs', '÷ route', 'wanted', '', 'requests/s']
const text = `# What each path costs

Written by \`npm run bench:paths\` on ${info.date} at ${info.commit}: Node ${info.node}, Redis ${redis.version}, ${info.machine}.
${rawResultsOf('benchmarks-paths')}

- **CPU µs** is the CPU time of the server's process for one request, including garbage collection and compilation. On a
  machine with other work, it is steadier than the rate.
- **÷ route** divides it by the CPU of the same route without the cache or without idempotency keys, under the same
  requests. The ratio is taken within each of ${ROUNDS} interleaved rounds of ${ROUND_MS} ms. The median is shown.
- Each path has a process of its own with \`NODE_ENV=production\`, 50 connections and 2.3 kB of JSON.

${table(head, chosen.map(rowOf))}

On Express a ratio can be below 1, because the cache makes \`req\` and \`res\` cheaper for Express. The reason is in
[decision 26](decisions/0026-what-a-miss-on-express-costs.md).
`
const raw = { ...info, redis: redis.version, paths: Object.fromEntries(measured) }
if (folder !== undefined) publish(folder, 'benchmarks-paths', text, raw)
// A part of a run, or a quick run, is printed and not published.
else if (!isQuick && ids.size === 0) publish(DOCS, 'benchmarks-paths', text, raw)
console.log(text)
for (const { child } of servers.values()) await child[Symbol.asyncDispose]()
await loader[Symbol.asyncDispose]()
await redis[Symbol.asyncDispose]()
