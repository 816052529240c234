// Measures the cost of a hit. Every server runs in its own process, and the servers take turns.
import { startRedis, urlOf } from '../../torture/redis-server.ts'
import { type Child, startChild } from '../lib/child.ts'
import type { ClosedLoopResult } from '../lib/closed-loop.ts'
import type { LoadOrder } from '../lib/loader.ts'
import { medianOf, ratios, type Spread, spreadOf } from '../lib/statistics.ts'
import { type Server, startNode } from './server.ts'
import { startReference } from './start-reference.ts'
import type { Subject } from './subject.ts'
import { subjects } from './subjects.ts'

export interface HitPlan {
  readonly rounds: number
  readonly roundMs: number
  readonly warmUpMs: number
  /** Ids of the rows to run, with their floors. Empty: all rows. */
  readonly rows: readonly string[]
}

export interface HitRow {
  readonly subject: Subject
  readonly requestsPerSecond: Spread
  /** CPU time of the server's process per request. Undefined if the server is not Node. */
  readonly cpuMicros: number | undefined
  /**
   * CPU time of the load's process per request. If it is higher than the server's, the load limits
   * the rate.
   */
  readonly loaderMicros: number
  /** The median of the ratios to the rate of its floor, each taken within one round. */
  readonly ofFloor: number | undefined
  /** Rates in the order of the rounds, for ratios between other rows. */
  readonly rates: readonly number[]
  /** The figures of each round. */
  readonly rounds: readonly Measured[]
}

const CONNECTIONS = 50
const AWAKE_MS = 250
const PATH = '/products/42'

export interface Measured {
  readonly rate: number
  readonly cpuMicros: number | undefined
  readonly loaderMicros: number
}

interface Contestant {
  readonly subject: Subject
  readonly server: Server
  readonly measured: Measured[]
}

export async function runHits({ rounds, roundMs, warmUpMs, rows }: HitPlan): Promise<HitRow[]> {
  const contestants: Contestant[] = []
  await using redis = await startRedis()
  const loader = await startChild('lib/loader.js')
  try {
    for (const subject of chosen(rows)) {
      contestants.push({
        subject,
        server: await startServer(subject, urlOf(redis.port)),
        measured: [],
      })
    }
    for (const contestant of contestants) await load(loader, contestant, warmUpMs)
    for (let round = 1; round <= rounds; round++) {
      for (const contestant of contestants) {
        contestant.measured.push(await measure(loader, contestant, roundMs))
      }
      console.error(`hit: round ${round} of ${rounds}`)
    }
  } finally {
    await loader[Symbol.asyncDispose]()
    for (const { server } of contestants) await server[Symbol.asyncDispose]()
  }
  return contestants.map((contestant) => rowOf(contestant, contestants))
}

function chosen(rows: readonly string[]): Subject[] {
  const asked = subjects.filter(({ id }) => rows.length === 0 || rows.includes(id))
  return subjects.filter(
    (subject) =>
      subject.isMissing?.() === undefined &&
      (asked.includes(subject) || asked.some(({ floor }) => floor === subject.id)),
  )
}

const startServer = ({ kind, id, server = id }: Subject, redisUrl: string): Promise<Server> =>
  kind === 'reference' ? startReference(id) : startNode(server, redisUrl)

async function measure(
  loader: Child,
  contestant: Contestant,
  durationMs: number,
): Promise<Measured> {
  const { subject, server } = contestant
  // The server was idle since its last round, so its memory may be swapped out and its caches cold.
  await load(loader, contestant, AWAKE_MS)
  const before = await server.usage()
  const loaded = await load(loader, contestant, durationMs)
  const { requests, wrong } = loaded
  const after = await server.usage()
  if (wrong > 0) throw new Error(`${subject.id}: ${wrong} of ${requests} responses are wrong`)
  checkOriginCalls(subject, after.originCalls - before.originCalls, requests)
  const cpuMicros = server.isNode ? (after.cpuMicros - before.cpuMicros) / requests : undefined
  const rate = (requests * 1_000) / loaded.durationMs
  return { rate, cpuMicros, loaderMicros: loaded.cpuMicros }
}

const load = (
  loader: Child,
  { subject: { isEachNew = false }, server: { port } }: Contestant,
  durationMs: number,
): Promise<ClosedLoopResult> =>
  loader.ask('load', {
    port,
    path: isEachNew ? '/products/m' : PATH,
    isEachNew,
    connections: CONNECTIONS,
    durationMs,
  } satisfies LoadOrder)

/** Throws if a hit called the origin, or a miss did not. Such a rate would have the wrong name. */
export function checkOriginCalls(
  { id, kind, isEachNew }: Subject,
  calls: number,
  requests: number,
): void {
  const wanted = isEachNew || kind === 'uncached' ? requests : 0
  if (calls !== wanted) throw new Error(`${id}: ${calls} origin calls for ${requests} requests`)
}

function rowOf({ subject, measured }: Contestant, all: readonly Contestant[]): HitRow {
  const rates = measured.map(({ rate }) => rate)
  const floor = all.find((each) => each.subject.id === subject.floor)
  const cpu = measured.flatMap(({ cpuMicros }) => cpuMicros ?? [])
  return {
    subject,
    requestsPerSecond: spreadOf(rates),
    cpuMicros: cpu.length > 0 ? medianOf(cpu) : undefined,
    loaderMicros: medianOf(measured.map(({ loaderMicros }) => loaderMicros)),
    ofFloor:
      floor &&
      medianOf(
        ratios(
          rates,
          floor.measured.map(({ rate }) => rate),
        ),
      ),
    rates,
    rounds: measured,
  }
}
