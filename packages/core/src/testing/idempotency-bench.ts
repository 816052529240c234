// One process with idempotency keys, fully controlled by a test.

import { createHttpIdempotency, type IdempotencyOptions } from '../http-idempotency.ts'
import type { IdempotencyRuntime } from '../idempotency/runtime.ts'
import { createStampede, idempotencyOf, type Stampede } from '../stampede.ts'
import type { StampedeOptions } from '../stampede-options.ts'
import type { FaultyIdempotency } from './idempotency-doubles.ts'
import { ManualClock, settled } from './manual-clock.ts'
import { type Asked, type ScriptedRequest, send } from './scripted-request.ts'
import { FaultyStore } from './store-doubles.ts'
import { Transcript } from './transcript.ts'

export type BenchOptions = Partial<IdempotencyOptions<ScriptedRequest>>

export class IdempotencyBench {
  readonly clock: ManualClock
  readonly store: FaultyIdempotency
  readonly stampede: Stampede
  readonly rt: IdempotencyRuntime
  readonly events: Transcript = new Transcript()

  constructor(options: StampedeOptions & { clock?: ManualClock; store?: FaultyStore } = {}) {
    const { clock = new ManualClock(), store = new FaultyStore() } = options
    this.clock = clock
    this.store = store.idempotency
    this.stampede = createStampede({ ...options, store, clock })
    this.rt = idempotencyOf(this.stampede)
    this.events.record(this.stampede)
  }

  /** Sends requests to a route. The promise resolves when promises have settled. */
  route(options: BenchOptions = {}): (asked?: Asked) => Promise<ScriptedRequest> {
    const scope = ({ user }: ScriptedRequest) => user as string
    const http = createHttpIdempotency<ScriptedRequest>({
      stampede: this.stampede,
      scope,
      ...options,
    })
    return async (asked = {}) => {
      const request = send(http, { key: 'k-1', ...asked })
      await settled()
      return request
    }
  }

  /** Counts of unfinished attempts. All are zero when nothing is under way. */
  get left(): Readonly<Record<'running' | 'unstored' | 'leases' | 'asking', number>> {
    const { attempts, keeper } = this.rt
    const { running, unstored, beginning: asking } = attempts.counts
    return { running, unstored, leases: keeper.size, asking }
  }

  /** Ends a test. After this time, no attempt, lease or timer may be left. */
  async end(afterMs = 130_000): Promise<void> {
    this.store.heal()
    await this.clock.advance(afterMs)
    const left = { ...this.left, timers: this.clock.timers }
    if (Object.values(left).some((n) => n > 0)) throw new Error(`left: ${JSON.stringify(left)}`)
    await this.stampede.close()
  }
}

export const NOTHING_LEFT: IdempotencyBench['left'] = {
  running: 0,
  unstored: 0,
  leases: 0,
  asking: 0,
}
