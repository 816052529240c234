// One lane of the lab: requests for one page over all processes, with a fault beside them.

import { randomUUID } from 'node:crypto'
import type { Database } from '../database.ts'
import { fire, type Summary } from '../fire.ts'
import type { Route } from '../lab-run.ts'
import type { OriginRuns } from '../origin-runs.ts'
import { readWholeNumber, refuseUnknownFields } from '../read-json.ts'
import { Problem } from '../response.ts'
import { FAULT_OF, FAULTS, type FaultName } from './faults.ts'
import type { Fleet } from './fleet.ts'
import { createRecorder, type TimelineEvent } from './recorder.ts'

const PREFIXES = { none: '/uncached', 'per-process': '/per-process', stampede: '' } as const
export type Lane = keyof typeof PREFIXES

export interface LaneOrder {
  readonly lane: Lane
  readonly fault: FaultName
  readonly requests: number
}

export interface LaneResult extends LaneOrder, Summary {
  readonly originRuns: number
  /** Responses with another status than 200, and requests without a response. */
  readonly errors: number
  /** Responses to requests after the purge that still showed the price from before it. */
  readonly outdated: number
  readonly events: readonly TimelineEvent[]
}

export interface LaneContext {
  readonly fleet: Fleet
  readonly database: Database
  readonly originRuns: OriginRuns
  readonly route: Route
  readonly deadline: AbortSignal
  publish(name: 'start' | 'event' | 'progress', data: unknown): void
}

const PRODUCT_ID = 7
const MAX_REQUESTS = 1000
const PROGRESS_MS = 100

/** Throws a 400 `Problem` if the body is not a valid order. */
export function readLaneOrder(body: Record<string, unknown>): LaneOrder {
  refuseUnknownFields(body, ['lane', 'fault', 'requests'])
  const requests = readWholeNumber(body, 'requests', 1, MAX_REQUESTS)
  const lane = oneOf('lane', body.lane, Object.keys(PREFIXES) as Lane[])
  const fault = oneOf('fault', body.fault, FAULTS)
  if (requests !== undefined) return { lane, fault, requests }
  throw new Problem(400, 'Bad value', `requests must be a whole number from 1 to ${MAX_REQUESTS}.`)
}

function oneOf<T extends string>(name: string, value: unknown, known: readonly T[]): T {
  const found = known.find((candidate) => candidate === value)
  if (found !== undefined) return found
  throw new Problem(400, 'Bad value', `${name} must be one of: ${known.join(', ')}.`)
}

export async function runLane(order: LaneOrder, context: LaneContext): Promise<LaneResult> {
  const { fleet, database, originRuns, route, deadline, publish } = context
  const { lane, requests } = order
  const fault = FAULT_OF[order.fault]
  // A new query parameter makes the key cold without a change to other entries.
  const runId = randomUUID()
  const query = `run=${runId}${fault.isShortLived === true ? '&maxage=1' : ''}`
  const path = `${PREFIXES[lane]}/api/products/${PRODUCT_ID}?${query}`
  const target = { path, headers: { host: route.hostHeader } }
  const watch = originRuns.watch(runId)
  const recorder = createRecorder(runId, (event) => publish('event', { lane, ...event }))
  const count = { answered: 0, outdated: 0, earlier: 0 }
  let purged: { atMs: number; priceCents: number } | undefined

  const volley = { target, deadline, next: route.next, retries: route.retries }
  const scene = {
    fleet,
    database,
    recorder,
    runId,
    productId: PRODUCT_ID,
    async warm() {
      await fire({ ...volley, requests: fleet.processes.length })
    },
    onPurged(priceCents: number) {
      purged = { atMs: performance.now(), priceCents }
    },
  }
  const onShot = (sentAt: number, body: string | undefined) => {
    count.answered++
    const isLate = purged !== undefined && sentAt > purged.atMs && body !== undefined
    if (isLate && !body.includes(`"priceCents":${purged?.priceCents}`)) count.outdated++
  }
  const progress = () => {
    const originRuns = watch.count - count.earlier
    publish('progress', { lane, requests, originRuns, answered: count.answered })
  }
  const timer = setInterval(progress, PROGRESS_MS)
  fleet.recorder = recorder
  try {
    await fleet.ready()
    recorder.start()
    publish('start', order)
    await fault.before?.(scene)
    count.earlier = watch.count
    recorder.note('lab.burst', undefined, { requests: String(requests) })
    const [summary] = await Promise.all([
      fire({ ...volley, requests, spreadMs: fault.spreadMs ?? 0, onShot }),
      fault.during?.(scene),
    ])
    await fault.after?.(scene)
    // Events travel in batches. The last ones are on their way.
    await recorder.find(() => false, 80)
    const { answered: _, earlier, ...counted } = count
    const good = Object.entries(summary.statuses).find(([status]) => status === '200')?.[1] ?? 0
    const runs = { originRuns: watch.count - earlier, errors: requests - good, ...counted }
    return { ...order, ...summary, ...runs, events: recorder.events }
  } finally {
    clearInterval(timer)
    fleet.recorder = undefined
    watch.stop()
    // A fault must not outlive its run, for example if the deadline ended it.
    fleet.redisServer?.resume()
    if (order.fault === 'origin') database.connected = true
    for (const each of fleet.processes) if (each.state === 'frozen') each.resume()
  }
}
