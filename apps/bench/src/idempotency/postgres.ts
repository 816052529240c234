// Costs of records in PostgreSQL: `npm run bench:idempotency -- postgres [--quick] [--out FOLDER]`.
// Writes results/idempotency-postgres.md.
import { request } from 'node:http'
import { type Child, startChild } from '../lib/child.ts'
import { fillPage, table } from '../lib/markdown.ts'
import { type PostgresServer, startPostgres } from '../lib/postgres.ts'
import { startRedis } from '../lib/redis.ts'
import type { RequestKind } from '../lib/requests.ts'
import { median, type Row, type RowSpec, ratio, runRows } from '../lib/rows.ts'
import { type Arguments, publish, RESULTS, runInfo, valuesOf } from '../lib/run.ts'
import { ascending, quantile } from '../lib/statistics.ts'
import { ORDERS, type RecordIn } from './postgres-server.ts'

type Server = Child<typeof import('./postgres-server.ts')>
type Loader = Child<typeof import('../lib/loader.ts')>

interface CostRow extends RowSpec {
  readonly recordIn: RecordIn
  readonly request: RequestKind
}

const FLOOR = 'by-hand'
const rows: readonly CostRow[] = [
  { id: FLOOR, name: 'BEGIN … COMMIT by hand', kind: 'floor', recordIn: 'none', request: 'order' },
  {
    ...{ id: 'first-redis', name: 'by hand, record in Redis', kind: 'ours', floor: FLOOR },
    ...{ recordIn: 'redis', request: 'order' },
  },
  {
    ...{ id: 'first-postgres', name: '`transaction: true`', kind: 'ours', floor: FLOOR },
    ...{ recordIn: 'postgres', request: 'order' },
  },
  {
    ...{ id: 'replay-postgres', name: 'its replay', kind: 'ours', floor: FLOOR },
    ...{ recordIn: 'postgres', request: 'repeated-order' },
  },
]
const CONNECTIONS = 16
const DUPLICATES = 200
const OTHER_KEYS = 100

export async function runPostgres({ folder, isQuick }: Arguments): Promise<void> {
  const [rounds, roundMs, warmUpMs] = isQuick ? [1, 300, 300] : [9, 1_500, 3_000]
  const info = runInfo()
  await using postgres = await startPostgres()
  await using redis = await startRedis()
  await using loader = await startChild<typeof import('../lib/loader.ts')>('lib/loader', [])
  await postgres.query(ORDERS)
  const serve = (recordIn: RecordIn) =>
    startChild<typeof import('./postgres-server.ts')>('idempotency/postgres-server', [
      ...([recordIn, postgres.url, redis.url] as const),
    ])
  const measured = await runRows({
    ...{ title: 'records in PostgreSQL', rows, rounds },
    async setUp(row) {
      const server = await serve(row.recordIn)
      const port = await server.call.port()
      const load = (durationMs: number) =>
        loader.call.closedLoop({ port, request: row.request, durationMs, connections: CONNECTIONS })
      return {
        warmUp: () => load(warmUpMs),
        measure: () => measure(server, postgres, () => load(roundMs), row.id),
        [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
      }
    },
  })
  await using server = await serve('postgres')
  const holdMs = isQuick ? 300 : 2_000
  const alone = await beside(server, holdMs, 1)
  const crowded = await beside(server, holdMs, DUPLICATES)
  const page = fillPage('idempotency-postgres', {
    ...valuesOf('idempotency-postgres', info),
    ...{ postgres: postgres.version, redis: redis.version },
    ...{ rounds: String(rounds), connections: String(CONNECTIONS), hold: String(holdMs) },
    costs: costTable(measured),
    crowd: crowdTable({ '1 request': alone, [`${DUPLICATES} requests`]: crowded }),
  })
  const target = folder ?? (isQuick ? undefined : RESULTS)
  if (target === undefined) return console.log(page)
  const raw = { ...info, postgres: postgres.version, rows: measured, alone, crowded }
  publish(target, 'idempotency-postgres', page, raw)
}

async function measure(
  server: Server,
  postgres: PostgresServer,
  load: () => ReturnType<Loader['call']['closedLoop']>,
  id: string,
) {
  const before = [await server.call.cpuMicros(), postgres.cpuMicros()] as const
  const { requests, wrong, durationMs } = await load()
  const after = [await server.call.cpuMicros(), postgres.cpuMicros()] as const
  if (wrong > 0) throw new Error(`${id}: ${wrong} of ${requests} responses are wrong`)
  return {
    node: (after[0] - before[0]) / requests,
    postgres: (after[1] - before[1]) / requests,
    rate: (requests * 1_000) / durationMs,
  }
}

function costTable(measured: readonly Row<CostRow>[]): string {
  const figure = (row: Row<CostRow>, name: string) => {
    const times = row.floor && ratio(measured, row.id, row.floor, name)
    return `${Math.round(median(row, name))}${times ? ` (${times.toFixed(2)} ×)` : ''}`
  }
  const head = ['', 'Node, µs CPU', 'PostgreSQL, µs CPU', 'requests a second']
  return table(
    head,
    measured.map((row) => [row.name, ...['node', 'postgres', 'rate'].map((n) => figure(row, n))]),
  )
}

/** Requests of other keys while requests of one key wait for its slow handler. */
async function beside(server: Server, holdMs: number, requests: number) {
  const port = await server.call.port()
  const slow = `slow-${requests}-${Date.now()}`
  for (let n = 0; n < 20; n++) await post(port, `warm-${requests}-${n}-${slow}`)
  const held = Array.from({ length: requests }, () => post(port, slow, holdMs))
  const latencies: number[] = []
  let isOver = false
  const all = Promise.all(held).then((ms) => {
    isOver = true
    return Math.max(...ms)
  })
  for (let n = 0; n < OTHER_KEYS && !isOver; n++)
    latencies.push(await post(port, `other-${n}-${slow}`))
  const connections = await server.call.connections()
  const sorted = ascending(latencies)
  return {
    others: sorted.length,
    medianMs: quantile(sorted, 0.5),
    slowestMs: sorted.at(-1) ?? 0,
    allMs: await all,
    connections,
  }
}

type Beside = Awaited<ReturnType<typeof beside>>

function crowdTable(columns: Readonly<Record<string, Beside>>): string {
  const figures: readonly (keyof Beside)[] = ['medianMs', 'slowestMs', 'allMs', 'connections']
  const names = ['other keys, median ms', 'slowest ms', 'all of the slow key, ms', 'connections']
  return table(
    ['', ...names],
    Object.entries(columns).map(([name, beside]) => [
      `${name} of the slow key`,
      ...figures.map((figure) => String(Math.round(beside[figure] * 10) / 10)),
    ]),
  )
}

/** Resolves with the time in ms. */
function post(port: number, key: string, holdMs = 0): Promise<number> {
  const since = performance.now()
  const body = '{"note":"Please ring twice."}'
  const headers = {
    'Content-Type': 'application/json',
    'Content-Length': body.length,
    'Idempotency-Key': `"${key}"`,
    'X-Hold-Ms': holdMs,
  }
  return new Promise((resolve, reject) => {
    const sent = request({ port, host: '127.0.0.1', path: '/orders', method: 'POST', headers })
    sent.once('error', reject)
    sent.once('response', (response) => {
      // At most 100 duplicates wait. Others get 409.
      if (![201, 409].includes(response.statusCode ?? 0))
        reject(new Error(`${key}: ${response.statusCode}`))
      response.resume().once('end', () => resolve(performance.now() - since))
    })
    sent.end(body)
  })
}
