// Reports of one process for operators: keys under work, keys hit most often, latest events.

import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Stampede, StampedeEvent, StampedeStats, StampedeStore } from '@stampede/core'
import { runtimeOf } from '@stampede/core/operator'
import { REPORT_LIMITS, type StoreOperator } from '@stampede/core/store'
import { HotKeys } from './hot-keys.ts'
import {
  type LastFill,
  MOST,
  type ProcessReport,
  type ReportAdditions,
  type ReportedEvent,
  readParsedReport,
} from './report-form.ts'
import { type ReportedId, reportedKey } from './reported-key.ts'

type Failure = NonNullable<Parameters<StampedeStore['fail']>[1]>

/** Options of `observe`. */
interface ObserverOptions {
  /** `false`: reports have hashes in place of keys, and no messages. Default `true`. */
  readonly showKeys?: boolean
  /** Is called for each report. */
  readonly add?: () => ReportAdditions
}

/** Facts about one Stampede for an operator, from `observe`. */
export interface Observer {
  /** Random name, by which the store keeps the reports of the process apart. */
  readonly id: string
  /** The state of the process now. */
  report(): ProcessReport
  /** The report as JSON within `REPORT_LIMITS.characters`, for `StoreOperator.report`. */
  reportText(): string
  /** The last fill of a key, if it is among the latest 2,000 of this process. */
  lastFill(internalKey: string): LastFill | undefined
  /** The operator interface of the store that the Stampede uses. */
  readonly operator: StoreOperator
  /** Whether the Stampede is closed. */
  readonly isClosed: boolean
  /** Stops to collect events and hits. */
  close(): void
}

type RouteStats = StampedeStats['routes'][string]
type SeenEvent = Omit<ReportedEvent, keyof ReportedId> & { readonly internalKey: string }

const MOST_FILLS = 2_000

/**
 * Collects the latest events and the keys hit most often, until `close`. One Stampede may have any
 * number of observers. Throws `ERR_STAMPEDE_OPTION` if `stampede` is not one.
 */
export function observe(stampede: Stampede, options: ObserverOptions = {}): Observer {
  const { showKeys = true, add } = options
  const rt = runtimeOf(stampede, 'observe')
  const id = randomBytes(6).toString('base64url')
  const hotKeys = new HotKeys(() => rt.clock.now())
  const recent: SeenEvent[] = []
  const fills = new Map<string, LastFill>()
  const keep = (event: StampedeEvent): void => {
    const at = rt.clock.wallNow()
    const { type, internalKey } = event
    recent.push({ at, type, internalKey, fields: fieldsOf(event, showKeys) })
    if (recent.length > MOST.recent) recent.shift()
    if (event.type !== 'lease.granted') return
    fills.delete(internalKey)
    fills.set(internalKey, { at, reason: event.reason })
    const [oldest = ''] = fills.keys()
    if (fills.size > MOST_FILLS) fills.delete(oldest)
  }
  const stops = rt.events.onAllButHits(keep)
  stops.push(rt.events.onHit((key) => hotKeys.hit(key)))

  /** `share`: the part of the lists that is kept, so that the report is not too long. */
  const reportOf = (share: number): object => {
    const most = (name: keyof typeof MOST) => Math.ceil(MOST[name] * share)
    const shown = (internalKey: string) => reportedKey(internalKey, showKeys)
    const stats = stampede.stats()
    const { history, locks } = add?.() ?? {}
    return {
      id,
      at: rt.clock.wallNow(),
      pid: process.pid,
      host: hostname(),
      uptimeMs: Math.round(process.uptime() * 1000),
      stats: {
        ...stats,
        routes: busiest(stats.routes, most('routes')),
        notCached: mostRefused(stats.notCached, most('routes')),
      },
      flights: flightsOf(rt)
        .slice(0, most('flights'))
        .map(({ internalKey, ...rest }) => ({ ...shown(internalKey), ...rest })),
      hotKeys: hotKeys
        .top(most('hotKeys'))
        .map(({ key, hits }) => ({ ...shown(key), hits, fill: fills.get(key) })),
      recent: recent.slice(-most('recent')).map(({ internalKey, ...event }) => ({
        ...shown(internalKey),
        ...event,
      })),
      history,
      locks: locks && { ...locks, held: locks.held.slice(-most('locks')) },
    }
  }
  return {
    id,
    operator: rt.store.operator,
    get isClosed() {
      return rt.closed
    },
    report: () => readParsedReport(reportOf(1)),
    reportText: () => {
      for (let share = 1; share > 0.01; share /= 2) {
        const json = JSON.stringify(reportOf(share))
        if (json.length <= REPORT_LIMITS.characters) return json
      }
      return '{}'
    },
    lastFill: (internalKey) => fills.get(internalKey),
    close: () => {
      for (const stop of stops.splice(0)) stop()
    },
  }
}

function flightsOf(rt: ReturnType<typeof runtimeOf>) {
  const leased = new Set(rt.keeper.grants().map(({ key }) => key))
  const now = rt.clock.now()
  return [...rt.flights.values()]
    .map((flight) => ({
      internalKey: flight.key,
      state: flight.state,
      hasLease: leased.has(flight.key),
      ageMs: Math.round(now - flight.startedAt),
      waiters: flight.size,
    }))
    .sort((a, b) => b.waiters - a.waiters || b.ageMs - a.ageMs)
}

/**
 * The scalar fields of an event. An idempotency key is a secret of its client, so `key` is not
 * among them. Messages of errors may have keys, so they are hidden, too.
 */
function fieldsOf(event: StampedeEvent, showKeys: boolean): Record<string, string | number> {
  const { type: _type, key: _key, internalKey: _internalKey, ...fields } = event
  const { failure, error, ...rest } = fields as Readonly<Record<string, unknown>>
  const { status, message } = (failure ?? {}) as Partial<Failure>
  const all = {
    ...rest,
    ...(failure !== undefined && { failure: showKeys ? `${status} ${message}`.trimEnd() : status }),
    // A failure has the message of its error.
    ...(failure === undefined && showKeys && { error: messageOf(error) }),
  }
  const scalars = Object.entries(all).filter(
    ([, value]) => typeof value !== 'object' && value !== undefined,
  )
  return Object.fromEntries(scalars.map(([field, value]) => [field, scalarOf(value)]))
}

function messageOf(error: unknown): unknown {
  return error instanceof Error ? error.message : error
}

function scalarOf(value: unknown): string | number {
  return typeof value === 'number' ? value : String(value).slice(0, 200)
}

/** The routes with the most requests. The others are added up. */
function busiest(routes: StampedeStats['routes'], most: number): Record<string, RouteStats> {
  const all = Object.entries(routes).sort(([, a], [, b]) => requestsIn(b) - requestsIn(a))
  const others = all.slice(most).map(([, each]) => each)
  const named = Object.fromEntries(all.slice(0, most))
  if (others.length === 0) return named
  const parts = [named['(other)'], ...others].filter((each) => each !== undefined)
  return { ...named, '(other)': parts.reduce(add) }
}

/** The routes with the most requests that were not cached. */
function mostRefused(routes: StampedeStats['notCached'], most: number): object {
  const sum = (reasons: object) => Object.values(reasons).reduce((all, each) => all + each, 0)
  const all = Object.entries(routes).sort(([, a], [, b]) => sum(b) - sum(a))
  return Object.fromEntries(all.slice(0, most))
}

const requestsIn = ({ hits, stale, misses, bypasses }: RouteStats): number =>
  hits + stale + misses + bypasses

function add(a: RouteStats, b: RouteStats): RouteStats {
  const sums = Object.entries(a).map(([field, value]) => [
    field,
    Number(value) + Number(Reflect.get(b, field)),
  ])
  return Object.fromEntries(sums) as RouteStats
}
