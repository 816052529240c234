// The parts of one `createStampede` object that its requests and calls share: store, L1, leases,
// flights.

import type { Flight, FlightRuntime } from './engine/flight.ts'
import type { Counts } from './entry/counts.ts'
import type { LeaseKeeper } from './lease/lease-keeper.ts'
import type { OriginSlots } from './lease/slots.ts'
import type { Clock } from './ports/clock.ts'
import type { Fences } from './ports/grant.ts'
import type { MemoryStore, StampedeStore } from './ports/store.ts'

/** The parts of one Stampede that requests, calls and operators share. */
export interface Runtime extends FlightRuntime {
  readonly store: MemoryStore
  /** The store, if it has the entries. Undefined: this process is alone, and L1 is the cache. */
  readonly records: StampedeStore | undefined
  /** For the fills of a process that is alone. */
  readonly fences: Fences
  readonly keeper: LeaseKeeper
  /** The flights that new requests may join, by key. */
  readonly flights: Map<string, Flight>
  /** Concurrency slots, for runs without a lease. */
  readonly originSlots: OriginSlots
  /** Recent digests of requests that were served stale after another request's refresh failed. */
  readonly seenDigests: Set<string>
  /** Paths whose response was too large to store, and until when their ranges are forwarded. */
  readonly largePaths: Map<string, number>
  readonly counts: Counts
  readonly clock: Clock
  readonly random: () => number
  /** How long a key stays hit-for-miss after a response that cannot be shared. */
  readonly passMs: number
  /** How long a failure is shared before the origin is called again. */
  readonly failureBackoffMs: number
  /** Gets each task that may go on after its response. Never throws. */
  readonly waitUntil: ((task: Promise<unknown>) => void) | undefined
  closed: boolean
}
