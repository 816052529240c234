// Snapshots of one process for a dashboard: keys under work, keys hit most often, latest events.

import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { EVENTS, type StampedeEvent } from '../events.ts'
import type { Flight } from '../flight/flight.ts'
import type { Runtime } from '../flight/runtime.ts'
import { shownKey } from '../ports/shown-key.ts'
import type { StoreOperator } from '../ports/store-operator.ts'
import { runtimeOf, type Stampede } from '../stampede.ts'
import type { StampedeStats } from '../stats.ts'
import { HotKeys } from './hot-keys.ts'

/** One key that this process looks up or fills. Times are in ms. */
export interface FlightView {
  readonly key: string
  readonly internalKey: string
  readonly state: Flight['state']
  /** Whether this process holds the lease of the key. */
  readonly hasLease: boolean
  readonly ageMs: number
  /** Requests and calls that wait. The leader is not one of them. */
  readonly waiters: number
}

/**
 * An event as JSON: its type, its keys and its fields. Errors are their messages. `key` is never an
 * idempotency key.
 */
export interface EventView {
  /** Wall-clock time of this process, in ms since 1970. */
  readonly at: number
  readonly type: StampedeEvent['type']
  readonly key: string
  readonly internalKey: string
  readonly [field: string]: unknown
}

/** The state of one process, as JSON. */
export interface ProcessSnapshot {
  /** Random name of this observer. */
  readonly id: string
  readonly pid: number
  readonly host: string
  readonly uptimeMs: number
  readonly stats: StampedeStats
  /** Most waiters first, at most 50. */
  readonly flights: readonly FlightView[]
  /** At most 20. */
  readonly hotKeys: ReadonlyArray<{
    readonly key: string
    readonly internalKey: string
    readonly hits: number
  }>
  /** The latest events except hits, oldest first, at most 100. */
  readonly recent: readonly EventView[]
}

/** Facts about one Stampede for an operator, from `observe`. */
export interface Observer {
  snapshot(): ProcessSnapshot
  /** The operator interface of the store that the Stampede uses. */
  readonly operator: StoreOperator
  /** Whether the Stampede is closed. */
  readonly isClosed: boolean
  /** Stops to collect events and hits. */
  close(): void
}

const MOST_FLIGHTS = 50
const MOST_HOT_KEYS = 20
const MOST_EVENTS = 100

/**
 * Collects the latest events and the keys hit most often, until `close`. One Stampede may have any
 * number of observers. Throws `ERR_STAMPEDE_OPTION` if `stampede` is not one.
 */
export function observe(stampede: Stampede): Observer {
  const rt = runtimeOf(stampede, 'observe')
  const id = randomBytes(6).toString('base64url')
  const hotKeys = new HotKeys(() => rt.clock.now())
  const recent: EventView[] = []
  const keep = (event: StampedeEvent): void => {
    recent.push(viewOf(event, rt.clock.wallNow()))
    if (recent.length > MOST_EVENTS) recent.shift()
  }
  const stops = Object.keys(EVENTS)
    .filter((type) => type !== 'entry.hit')
    .map((type) => rt.events.on(type, keep))
  stops.push(rt.events.onHit((key) => hotKeys.hit(key)))
  return {
    operator: rt.store.operator,
    get isClosed() {
      return rt.closed
    },
    snapshot: () => ({
      id,
      pid: process.pid,
      host: hostname(),
      uptimeMs: Math.round(process.uptime() * 1000),
      stats: stampede.stats(),
      flights: flightsOf(rt),
      hotKeys: hotKeys
        .top(MOST_HOT_KEYS)
        .map(({ key, hits }) => ({ key: shownKey(key), internalKey: key, hits })),
      recent: [...recent],
    }),
    close: () => {
      for (const stop of stops.splice(0)) stop()
    },
  }
}

function flightsOf(rt: Runtime): FlightView[] {
  const leased = new Set(rt.keeper.grants().map(({ key }) => key))
  const now = rt.clock.now()
  return [...rt.flights.values()]
    .map((flight) => ({
      key: shownKey(flight.key),
      internalKey: flight.key,
      state: flight.state,
      hasLease: leased.has(flight.key),
      ageMs: Math.round(now - flight.startedAt),
      waiters: flight.waiters.size,
    }))
    .sort((a, b) => b.waiters - a.waiters || b.ageMs - a.ageMs)
    .slice(0, MOST_FLIGHTS)
}

function viewOf(event: StampedeEvent, at: number): EventView {
  const fields = Object.entries(event).map(([name, value]) => [name, asJson(value)])
  // An idempotency key is a secret of its client. Its internal key is a hash, which may be shown.
  return { at, ...Object.fromEntries(fields), key: shownKey(event.internalKey) } as EventView
}

function asJson(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  return value instanceof Error ? value.message : value
}
