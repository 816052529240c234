// The parts of one `createStampede` object that lookups and fills share: store, L1, leases,
// flights.

import type { Counts } from '../entry/counts.ts'
import type { Events } from '../events.ts'
import type { L1, LocalStore } from '../l1/l1.ts'
import type { PurgeMarks } from '../l1/purge-marks.ts'
import type { LeaseKeeper } from '../lease/lease-keeper.ts'
import type { Clock } from '../ports/clock.ts'
import type { StampedeStore } from '../ports/store.ts'
import type { Flight } from './flight.ts'
import type { OriginSlots } from './origin-slots.ts'

export interface Runtime {
  readonly store: StampedeStore
  readonly l1: L1
  /** The store, if it is in this process. Its records are then the storage of L1. */
  readonly local: LocalStore | undefined
  readonly marks: PurgeMarks
  readonly keeper: LeaseKeeper
  /** The flights that new requests may join, by key. */
  readonly flights: Map<string, Flight>
  /** Concurrency slots, for runs without a lease. */
  readonly originSlots: OriginSlots
  /** Recent digests of requests that were served stale after another request's refresh failed. */
  readonly seenDigests: Set<string>
  /** Paths whose response was too large to store, and until when their ranges are forwarded. */
  readonly largePaths: Map<string, number>
  readonly events: Events
  readonly counts: Counts
  readonly clock: Clock
  readonly random: () => number
  /** How long a key stays hit-for-miss. */
  readonly passMs: number
  /** How long a failure is shared before the origin is called again. */
  readonly failureBackoffMs: number
  /** Gets each task that may go on after its response. Never throws. */
  readonly waitUntil: ((task: Promise<unknown>) => void) | undefined
  closed: boolean
}
