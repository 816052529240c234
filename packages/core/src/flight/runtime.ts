// The collaborators of one Stampede, as every stage of a resolution uses them.

import type { Events } from '../events.ts'
import type { L1, LocalStore } from '../l1/l1.ts'
import type { PurgeMarks } from '../l1/purge-marks.ts'
import type { LeaseKeeper } from '../lease/lease-keeper.ts'
import type { Clock } from '../ports/clock.ts'
import type { StampedeStore } from '../ports/store.ts'
import type { Flight } from './flight.ts'
import type { Places } from './origin-slots.ts'

export interface Runtime {
  readonly store: StampedeStore
  readonly l1: L1
  /** The store, if it is in this process and holds what is in L1. */
  readonly local: LocalStore | undefined
  readonly marks: PurgeMarks
  readonly keeper: LeaseKeeper
  readonly flights: Map<string, Flight>
  /** For runs that no lease stands for. */
  readonly places: Places
  readonly events: Events
  readonly clock: Clock
  readonly random: () => number
  readonly passMs: number
  readonly failureBackoffMs: number
  closed: boolean
}
