// The state of idempotency keys in this process, by key of the record. One key has one state: an
// attempt that begins or runs here, a result that the store has (done), or a result that the store
// does not have yet (unstored).
//
// A done result is replayed without a command. It changes only when an operator settles its key,
// and then all processes get a message. The handler of an unstored result must not run again. So
// the process replays its result, retries to store it, and meanwhile renews the lease.

import { stringBytes } from '../entry/entry.ts'
import type { Deadline, Deadlines } from '../lease/deadlines.ts'
import type { Clock } from '../ports/clock.ts'
import type { Fingerprints } from '../ports/idempotency-store.ts'
import { bytesOf, type Kept, type Replay, withoutBody } from './kept-response.ts'
import type { Known, LocalAttempt } from './types.ts'

/** Longest time for which a done result is kept. It bounds the effect of a lost message. */
const LONGEST_MS = 60_000
/** Least time between sweeps of done results. */
const SWEEP_MS = 1_000
const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 5_000
/** Memory of a result without its strings and bytes, measured by `test/soak/heap.test.ts`. */
const RECORD_BYTES = { done: 450, unstored: 1_000 }
const MAX_BYTES = { done: 16 * 1024 * 1024, unstored: 64 * 1024 * 1024 }
const MAX_ENTRY_BYTES = MAX_BYTES.done / 16

export class Attempts {
  readonly #clock: Clock
  readonly #deadlines: Deadlines
  readonly #mayTrust: () => boolean
  readonly #waiters: { wake(key: string): void }
  /** Results are in the order in which they were added, oldest first. */
  readonly #known = new Map<string, Known>()
  readonly bytes: Record<'done' | 'unstored', number> = { done: 0, unstored: 0 }
  /** `beginning`: the pending commands, of which only the newest of a key can be shared. */
  readonly counts: Record<Known['type'], number> = {
    beginning: 0,
    running: 0,
    done: 0,
    unstored: 0,
  }
  #sweep: Deadline | undefined
  #retry: Deadline | undefined
  #delayMs = FIRST_RETRY_MS
  #retrying: Promise<void> | undefined
  #isStopped = false
  /**
   * Number of the last settlement or gap. Get it before a command is sent, and pass it to
   * `addDone`.
   */
  sequence = 0

  /**
   * `mayTrust`: whether messages arrive now, so that this process would notice a settled record.
   * `waiters` are woken when an attempt of this process no longer runs.
   */
  constructor(
    { clock, deadlines }: { clock: Clock; deadlines: Deadlines },
    mayTrust: () => boolean,
    waiters: { wake(key: string): void },
  ) {
    this.#clock = clock
    this.#deadlines = deadlines
    this.#mayTrust = mayTrust
    this.#waiters = waiters
  }

  /** Whether a command or an attempt of this process is not over. */
  get isBusy(): boolean {
    const { beginning, running, unstored } = this.counts
    return beginning + running + unstored > 0
  }

  get(key: string): Known | undefined {
    const known = this.#known.get(key)
    if (known?.type !== 'done') return known
    return this.#mayTrust() && this.#clock.now() < known.until ? known : undefined
  }

  running(): LocalAttempt[] {
    const all = [...this.#known.values()]
    return all.filter((known): known is LocalAttempt => known.type === 'running')
  }

  /** Removes a state, unless another one has replaced it. */
  remove(key: string, known: Known): void {
    if (this.#known.get(key) === known) this.set(key, undefined)
  }

  /**
   * Adds a result that the store has, unless a record was settled after `since`: the reply with the
   * result may be from before. `kept` must come from `ownKept`. `forMs`: how long the store still
   * keeps the record.
   */
  addDone(key: string, { kept, fingerprints }: Replay, forMs: number, since: number): void {
    if (since !== this.sequence || this.#known.get(key)?.type === 'running') return
    const bytes = bytesFor('done', key, fingerprints, kept)
    if (bytes > MAX_ENTRY_BYTES) return
    const until = this.#clock.now() + Math.min(forMs, LONGEST_MS)
    this.set(key, { type: 'done', kept, fingerprints, until, bytes })
    if (this.bytes.done > MAX_BYTES.done) this.#bound('done')
    if ((this.#sweep?.place ?? -1) === -1) this.#sweepAt(until)
  }

  /**
   * The attempt has ended, and the store does not have its end. If there are too many bytes, the
   * oldest bodies are dropped. Those attempts are then stored as completed without a response.
   */
  addUnstored(attempt: LocalAttempt, forMs: number): void {
    if (this.#isStopped) return attempt.stop()
    const { key, fingerprints } = attempt.claim
    this.set(key, undefined)
    attempt.type = 'unstored'
    // No limit counts the request object, which may have a large body.
    attempt.claim = { ...attempt.claim, native: undefined }
    attempt.until = this.#clock.now() + forMs
    attempt.bytes = bytesFor('unstored', key, fingerprints, attempt.kept)
    this.set(key, attempt)
    if (this.bytes.unstored > MAX_BYTES.unstored) this.#bound('unstored')
    this.#delayMs = FIRST_RETRY_MS
    this.#schedule()
  }

  /** An operator settled this record. */
  settle(key: string): void {
    this.sequence += 1
    if (this.#known.get(key)?.type === 'done') this.set(key, undefined)
  }

  /** Settlements may have been missed, so done results may be outdated. */
  forgetDone(): void {
    this.sequence += 1
    this.#deadlines.end(this.#sweep)
    for (const [key, { type }] of this.#known) if (type === 'done') this.set(key, undefined)
  }

  /** The store is available again. Retries at once, and after failures with short delays. */
  storeIsBack(): void {
    this.#delayMs = FIRST_RETRY_MS
    this.retryNow()
  }

  retryNow(): Promise<void> | undefined {
    if (this.counts.unstored === 0) return undefined
    this.#deadlines.end(this.#retry)
    this.#retrying ??= this.#retryAll().finally(() => {
      this.#retrying = undefined
      this.#schedule()
    })
    return this.#retrying
  }

  stop(): void {
    this.#isStopped = true
    this.#deadlines.end(this.#retry)
    this.forgetDone()
    for (const [key, { type }] of this.#known) if (type === 'unstored') this.set(key, undefined)
  }

  /** Replaces the state of a key. The end of an attempt that is replaced no longer counts. */
  set(key: string, next: Known | undefined): void {
    const last = this.#known.get(key)
    if (last !== undefined) this.#count(last, -1)
    // Results are added at the end of the map.
    if (next?.type !== 'running') this.#known.delete(key)
    if (next !== undefined) {
      this.#count(next, 1)
      this.#known.set(key, next)
    }
    if (last?.type === 'unstored') last.stop()
    if (last?.type === 'running') this.#waiters.wake(key)
  }

  #count(known: Known, by: 1 | -1): void {
    if (known.type === 'beginning') return
    this.counts[known.type] += by
    if (known.type !== 'running') this.bytes[known.type] += by * known.bytes
  }

  /**
   * Drops the oldest bodies, and if that is not enough the oldest results, until a 64th of the
   * limit is free. Then most additions drop nothing, since each call reads the whole map.
   */
  #bound(type: 'done' | 'unstored'): void {
    const most = MAX_BYTES[type] * (63 / 64)
    for (const known of this.#known.values()) {
      if (this.bytes[type] <= most) return
      if (type === 'unstored' && known.type === 'unstored') this.#dropBody(known)
    }
    for (const [key, known] of this.#known) {
      if (this.bytes[type] <= most) return
      if (known.type === type) this.set(key, undefined)
    }
  }

  #dropBody(unstored: LocalAttempt): void {
    if (unstored.kept === undefined) return
    const { key, fingerprints } = unstored.claim
    this.#count(unstored, -1)
    unstored.kept = withoutBody(unstored.kept)
    unstored.bytes = bytesFor('unstored', key, fingerprints, unstored.kept)
    this.#count(unstored, 1)
  }

  #sweepAt(until: number): void {
    const at = Math.max(until, this.#clock.now() + SWEEP_MS)
    this.#sweep = this.#deadlines.set(() => this.#dropExpired(), at)
  }

  /**
   * Drops expired results from the oldest one to the first valid one, since nearly all expire in
   * this order. An expired result after that one stays until a later sweep.
   */
  #dropExpired(): void {
    const now = this.#clock.now()
    for (const [key, known] of this.#known) {
      if (known.type !== 'done') continue
      if (now < known.until) return this.#sweepAt(known.until)
      this.set(key, undefined)
    }
  }

  #schedule(): void {
    if (this.counts.unstored === 0 || (this.#retry?.place ?? -1) !== -1) return
    const at = this.#clock.now() + this.#delayMs
    this.#retry = this.#deadlines.set(() => void this.retryNow(), at)
    this.#delayMs = Math.min(this.#delayMs * 2, LAST_RETRY_MS)
  }

  async #retryAll(): Promise<void> {
    // One after the other, so that a store which has just become available is not overloaded.
    for (const [key, known] of [...this.#known]) {
      // The entry may have been dropped or replaced meanwhile.
      if (known.type !== 'unstored' || this.#known.get(key) !== known) continue
      const isOver = this.#clock.now() >= known.until
      if (!isOver) await known.sendEnd()
      if (isOver || known.isStored) this.remove(key, known)
    }
  }
}

function bytesFor(
  type: keyof typeof RECORD_BYTES,
  key: string,
  { exact, canonical }: Fingerprints,
  kept: Kept | undefined,
): number {
  const strings = stringBytes(key) + stringBytes(exact) + stringBytes(canonical)
  return RECORD_BYTES[type] + strings + (kept === undefined ? 0 : bytesOf(kept))
}

// The requests and jobs of this process that wait for the end of an attempt. A wake-up only makes a
// waiter repeat its `begin` command, so lost or repeated wake-ups do no harm.

export interface Waiting {
  /**
   * Waits for a wake-up, but at most for `forMs`. If a wake-up came after `join` or after the last
   * `sleep`, this promise resolves at once.
   */
  sleep(forMs: number): Promise<void>
  leave(): void
}

export class Waiters {
  readonly #clock: Clock
  readonly #byKey = new Map<string, { readonly wakes: Set<() => void>; turn: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Adds a waiter. Called before the `begin` command is sent, so that no wake-up is missed.
   * Undefined if there are `max` waiters already.
   */
  join(key: string, max: number): Waiting | undefined {
    const all = this.#byKey.get(key) ?? { wakes: new Set(), turn: 0 }
    if (all.wakes.size >= max) return undefined
    let woken = false
    let endSleep: () => void = () => {}
    const wake = () => {
      woken = true
      endSleep()
    }
    all.wakes.add(wake)
    this.#byKey.set(key, all)
    return {
      sleep: async (forMs) => {
        if (!woken)
          await new Promise<void>((resolve) => {
            const timer = this.#clock.setTimer(forMs, resolve)
            endSleep = () => {
              timer.cancel()
              resolve()
            }
          })
        woken = false
      },
      leave: () => {
        all.wakes.delete(wake)
        if (all.wakes.size === 0) this.#byKey.delete(key)
      },
    }
  }

  /**
   * Number of wake-ups of a key. Equal requests share one pending `begin` command, but only if this
   * number is equal for both. The reply to an older command may be outdated.
   */
  turn(key: string): number {
    return this.#byKey.get(key)?.turn ?? 0
  }

  wake(key: string): void {
    const all = this.#byKey.get(key)
    if (all === undefined) return
    all.turn += 1
    for (const wake of [...all.wakes]) wake()
  }

  wakeAll(): void {
    for (const key of [...this.#byKey.keys()]) this.wake(key)
  }
}
