// Results of one run. A part that did not run is missing.
import type { RunInfo } from '../../run-info.ts'
import type { CallRow } from '../data/run-calls.ts'
import type { KeysSeen } from '../growth/keys-member.ts'
import type { CrowdRow } from '../growth/run-crowds.ts'
import type { FleetRow, PagesRow, WaitersRow } from '../growth/run-growth.ts'
import type { HitRow } from '../hit/run-hits.ts'
import type { OpenRow } from '../open/run-open.ts'

export interface Results extends RunInfo {
  hits?: readonly HitRow[]
  calls?: readonly CallRow[]
  redisHits?: readonly CallRow[]
  redisMisses?: readonly CallRow[]
  open?: readonly OpenRow[]
  growth?: Growth
  redisVersion?: string
  /** The command that was run. */
  command: string
  seconds: number
  /** Load average of the machine in the five minutes before the run. */
  loadBefore: number
}

export interface Growth {
  readonly keys: readonly KeysSeen[]
  readonly pages: PagesRow
  readonly fleets: readonly FleetRow[]
  readonly waiters: readonly WaitersRow[]
  readonly crowds: readonly CrowdRow[]
}
