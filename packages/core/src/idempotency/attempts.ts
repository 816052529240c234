// The state of idempotency keys in this process, by key of the record. One key has one state: an
// attempt that begins or runs here, a result that the store has (done), or a result that the store
// does not have yet (unstored).
//
// A done result is replayed without a command. It changes only when an operator settles its key,
// and then all processes get a message. The handler of an unstored result must not run again. So
// the process replays its result, retries to store it, and meanwhile renews the lease.

import { LRUCache } from 'lru-cache'
import { stringBytes } from '../entry/entry.ts'
import type { Deadline, Deadlines } from '../lease/deadlines.ts'
import type { Clock } from '../ports/clock.ts'
import { bytesOf, type Kept, keptWithoutBody } from './kept-response.ts'
import type { Beginning, Claim, Done, Known, LocalAttempt } from './types.ts'

/** Longest time for which a done result is used. It bounds the effect of a lost message. */
const LONGEST_MS = 60_000
const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 5_000
/** Memory of a result without its strings and bytes, measured by `test/soak/heap.test.ts`. */
const DONE_BYTES = 450
const UNSTORED_BYTES = 1_000
const MOST_DONE_BYTES = 16 * 1024 * 1024
const MOST_UNSTORED_BYTES = 64 * 1024 * 1024

type Claimed = Pick<Claim, 'key' | 'fingerprints'>

/** The parts of the process that the states of keys depend on. */
interface Parts {
  readonly clock: Clock
  readonly deadlines: Deadlines
  /** Its messages tell which records were settled. */
  readonly store: { readonly isReceiving?: boolean }
  /** Woken when an attempt of this process no longer runs. */
  readonly waiters: { wake(key: string): void }
}

export class Attempts {
  readonly #parts: Parts
  /** Unstored results are in the order in which they were added. */
  readonly #present = new Map<string, Beginning | LocalAttempt>()
  readonly done: LRUCache<string, Done> = new LRUCache<string, Done>({
    maxSize: MOST_DONE_BYTES,
    maxEntrySize: MOST_DONE_BYTES / 16,
  })
  /** `beginning`: the pending commands, of which only the newest of a key can be shared. */
  readonly counts: Record<'beginning' | LocalAttempt['type'], number> = {
    beginning: 0,
    running: 0,
    unstored: 0,
  }
  unstoredBytes = 0
  #retry: Deadline | undefined
  #delayMs = FIRST_RETRY_MS
  #retrying: Promise<void> | undefined
  #isStopped = false
  /**
   * Number of the last settlement or gap. Get it before a command is sent, and pass it to
   * `addDone`.
   */
  sequence = 0

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Whether a command or an attempt of this process is not over. */
  get isBusy(): boolean {
    const { beginning, running, unstored } = this.counts
    return beginning + running + unstored > 0
  }

  get(key: string): Known | undefined {
    const present = this.#present.get(key)
    if (present !== undefined) return present
    const { store, clock } = this.#parts
    const done = this.done.get(key)
    const isValid = done && store.isReceiving !== false && clock.now() < done.until
    return isValid ? done : undefined
  }

  running(): LocalAttempt[] {
    const all = [...this.#present.values()]
    return all.filter((known): known is LocalAttempt => known.type === 'running')
  }

  /** Removes a state, unless another one has replaced it. */
  remove(key: string, known: Known): void {
    if (this.#present.get(key) === known) this.set(key, undefined)
  }

  /**
   * Adds a result that the store has, unless a record was settled after `since`: the reply with the
   * result may be from before. `kept` must come from `ownKept`. `forMs`: how long the store still
   * keeps the record.
   */
  addDone({ key, fingerprints }: Claimed, kept: Kept, forMs: number, since: number): void {
    if (since !== this.sequence || this.#present.get(key)?.type === 'running') return
    this.set(key, undefined)
    const until = this.#parts.clock.now() + Math.min(forMs, LONGEST_MS)
    const size = DONE_BYTES + bytesFor({ key, fingerprints }, kept)
    this.done.set(key, { type: 'done', kept, fingerprints, until }, { size })
  }

  /**
   * The attempt has ended, and the store does not have its end. If there are too many bytes, the
   * oldest bodies are dropped. Those attempts are then stored as completed without a response.
   */
  addUnstored(attempt: LocalAttempt, forMs: number): void {
    if (this.#isStopped) return attempt.stop()
    const { key } = attempt.claim
    this.set(key, undefined)
    attempt.type = 'unstored'
    // No limit counts the request object, which may have a large body.
    attempt.claim = { ...attempt.claim, native: undefined }
    attempt.until = this.#parts.clock.now() + forMs
    attempt.bytes = UNSTORED_BYTES + bytesFor(attempt.claim, attempt.kept)
    this.set(key, attempt)
    if (this.unstoredBytes > MOST_UNSTORED_BYTES) this.#bound()
    this.#delayMs = FIRST_RETRY_MS
    this.#schedule()
  }

  /** An operator settled this record. */
  settle(key: string): void {
    this.sequence += 1
    this.done.delete(key)
  }

  /** Settlements may have been missed, so done results may be outdated. */
  forgetDone(): void {
    this.sequence += 1
    this.done.clear()
  }

  /** The store is available again. Retries at once, and after failures with short delays. */
  storeIsBack(): void {
    this.#delayMs = FIRST_RETRY_MS
    this.retryNow()
  }

  retryNow(): Promise<void> | undefined {
    if (this.counts.unstored === 0) return undefined
    this.#parts.deadlines.end(this.#retry)
    this.#retrying ??= this.#retryAll().finally(() => {
      this.#retrying = undefined
      this.#schedule()
    })
    return this.#retrying
  }

  stop(): void {
    this.#isStopped = true
    this.#parts.deadlines.end(this.#retry)
    this.forgetDone()
    for (const [key, { type }] of this.#present) if (type === 'unstored') this.set(key, undefined)
  }

  /** Replaces the state of a key. The end of an attempt that is replaced no longer counts. */
  set(key: string, next: Beginning | LocalAttempt | undefined): void {
    const last = this.#present.get(key)
    if (last !== undefined) this.#count(last, -1)
    if (next === undefined) this.#present.delete(key)
    else {
      this.#count(next, 1)
      this.#present.set(key, next)
      this.done.delete(key)
    }
    if (last?.type === 'unstored') last.stop()
    if (last?.type === 'running') this.#parts.waiters.wake(key)
  }

  #count(known: Beginning | LocalAttempt, by: 1 | -1): void {
    if (known.type === 'beginning') return
    this.counts[known.type] += by
    this.unstoredBytes += by * known.bytes
  }

  /**
   * Drops the oldest bodies, and if that is not enough the oldest results, until a 64th of the
   * limit is free. Then most additions drop nothing, since each call reads the whole map.
   */
  #bound(): void {
    const most = MOST_UNSTORED_BYTES * (63 / 64)
    for (const known of this.#present.values()) {
      if (this.unstoredBytes <= most) return
      if (known.type === 'unstored') this.#dropBody(known)
    }
    for (const [key, known] of this.#present) {
      if (this.unstoredBytes <= most) return
      if (known.type === 'unstored') this.set(key, undefined)
    }
  }

  #dropBody(unstored: LocalAttempt): void {
    const { kept } = unstored
    if (kept?.type !== 'value' && kept?.body === undefined) return
    this.unstoredBytes -= unstored.bytes
    unstored.kept = keptWithoutBody(kept.type === 'value' ? {} : kept)
    unstored.bytes = UNSTORED_BYTES + bytesFor(unstored.claim, unstored.kept)
    this.unstoredBytes += unstored.bytes
  }

  #schedule(): void {
    if (this.counts.unstored === 0 || (this.#retry?.place ?? -1) !== -1) return
    const at = this.#parts.clock.now() + this.#delayMs
    this.#retry = this.#parts.deadlines.set(() => void this.retryNow(), at)
    this.#delayMs = Math.min(this.#delayMs * 2, LAST_RETRY_MS)
  }

  async #retryAll(): Promise<void> {
    // One after the other, so that a store which has just become available is not overloaded.
    for (const [key, known] of [...this.#present]) {
      // The entry may have been dropped or replaced meanwhile.
      if (known.type !== 'unstored' || this.#present.get(key) !== known) continue
      const isOver = this.#parts.clock.now() >= known.until
      if (!isOver) await known.sendEnd()
      if (isOver || known.isStored) this.remove(key, known)
    }
  }
}

/** Memory of the strings and bytes of a result. */
function bytesFor({ key, fingerprints }: Claimed, kept: Kept | undefined): number {
  const { exact, canonical } = fingerprints
  const strings = stringBytes(key) + stringBytes(exact) + stringBytes(canonical)
  return strings + (kept === undefined ? 0 : bytesOf(kept))
}

// The requests and jobs of this process that wait for the end of an attempt. A wake-up only makes a
// waiter repeat its `begin` command, so lost or repeated wake-ups do no harm.

interface WaitersOfKey {
  size: number
  /** Number of wake-ups since the first waiter joined. */
  turn: number
  readonly wakes: Set<() => void>
}

export class Waiters {
  readonly #clock: Clock
  readonly #byKey = new Map<string, WaitersOfKey>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Adds a waiter, which needs a call of `leave`. False if there are `max` waiters already. */
  join(key: string, max: number): boolean {
    const all = this.#byKey.get(key) ?? { size: 0, turn: 0, wakes: new Set() }
    if (all.size >= max) return false
    all.size += 1
    this.#byKey.set(key, all)
    return true
  }

  leave(key: string): void {
    const all = this.#byKey.get(key)
    if (all !== undefined && --all.size === 0) this.#byKey.delete(key)
  }

  /**
   * Waits for a wake-up, at most for `forMs`. `turn`: that of the key before its `begin` command
   * was sent. If a wake-up came since, this promise resolves at once.
   */
  async sleep(key: string, turn: number, forMs: number): Promise<void> {
    const all = this.#byKey.get(key)
    if (all?.turn !== turn) return
    await new Promise<void>((resolve) => {
      const wake = () => {
        timer.cancel()
        all.wakes.delete(wake)
        resolve()
      }
      const timer = this.#clock.setTimer(forMs, wake)
      all.wakes.add(wake)
    })
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
