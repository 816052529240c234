// This process's knowledge of the fleet's purges. Each message names the position before it, so the
// process notices a gap and reads the log. A heartbeat notices losses that leave no gap.

import {
  CONFIRMED_FOR_MS,
  type Position,
  type StoreHooks,
  storeUnavailable,
} from '@stampede/core/store'
import type { ServerClock } from '../connection/server-clock.ts'
import type { PurgeCommands } from './purge-commands.ts'
import { type News, type Purge, type PurgeEvent, readMessage } from './purge-news.ts'

/** Purges remembered, so that none is applied twice when its message comes back. */
const MOST_APPLIED = 1_000
/** A message this far ahead of the server's clock was not sent by that server. */
const AHEAD_MS = 60_000

const UNANNOUNCED =
  'made, but PUBLISH is refused: other processes may hold copies in memory for some seconds'

type Hooks = Pick<StoreHooks, 'onPurge' | 'onMark' | 'onForget' | 'onError'>
type Clock = Pick<ServerClock, 'now' | 'agoAtMost'>

export class RedisPurges {
  readonly #commands: PurgeCommands
  readonly #clock: Clock
  readonly #hooks: Hooks
  readonly #applied = new Set<Position>()
  /** Every purge up to this one was applied. */
  #known: Position = 0
  /** run_id of the server that told `#known`. */
  #run = ''
  #newest: Position = 0
  /** The newest purge heard of that does not follow on `#known`. */
  #missing: Position = 0
  #confirmedAt = Number.NEGATIVE_INFINITY
  /** Another server may have taken over that knows fewer purges. */
  #doubted = false
  #reading: Promise<void> | undefined
  #beating = false

  constructor(commands: PurgeCommands, clock: Clock, hooks: Hooks) {
    this.#commands = commands
    this.#clock = clock
    this.#hooks = hooks
  }

  /** The newest purge heard of: what is begun now is newer. */
  get position(): Position {
    return this.#newest
  }

  /** The moment up to which it is certain that no purge was missed, on this process's clock. */
  get confirmedAt(): number {
    return this.#confirmedAt
  }

  /** Resolves when this process has applied the purge, too. */
  async append(purge: Purge): Promise<void> {
    const sentAt = this.#clock.now()
    const { position, prev, isTold } = await this.#commands.append(purge, this.#newest)
    this.#apply({ ...purge, position }, 0)
    this.#follow(position, prev)
    if (this.#known >= position) this.#confirm(sentAt)
    if (!isTold) throw storeUnavailable('redis', 'purge', new Error(UNANNOUNCED))
  }

  /**
   * Applies the purge at once. A purge that is applied twice or out of order drops too much at
   * worst.
   */
  receive(message: string): void {
    const event = readMessage(message)
    const agoMs = event && this.#clock.agoAtMost(event.position / 1000)
    if (event === undefined || this.#isImplausible(event, agoMs)) {
      this.#repair()
      return
    }
    this.#apply(event, Math.max(0, agoMs ?? 0))
    this.#follow(event.position, event.prev)
  }

  /** Called when messages arrive again. The log is read after that, so no purge falls between. */
  async resume(): Promise<void> {
    await this.#reading?.catch(() => {})
    await this.catchUp(true)
  }

  /**
   * Undefined if it was recently confirmed that no purge was missed. Else a promise that resolves
   * when it is confirmed, and rejects if it cannot be.
   */
  confirm(): Promise<void> | undefined {
    const isOld = this.#clock.now() - this.#confirmedAt >= CONFIRMED_FOR_MS
    return isOld || this.#doubted ? this.catchUp() : undefined
  }

  /**
   * A connection was lost. After a fail-over, purged entries may be back. So the next lookup first
   * reads the purges, and the script raises a history that is behind.
   */
  doubt(): void {
    this.#doubted = true
  }

  /** Heartbeat: reads the log only if a purge was missed. */
  async beat(): Promise<void> {
    if (this.#beating || this.#reading !== undefined) return
    this.#beating = true
    try {
      const [known, sentAt] = [this.#known, this.#clock.now()]
      const last = await this.#commands.last()
      // A smaller position comes from a server that took over too early.
      const isCovered = last !== undefined && last >= known && last <= this.#known
      if (known > 0 && isCovered && this.#newest <= this.#known) this.#confirm(sentAt)
      else await this.catchUp()
    } catch {
      // Copies stay trusted for a few seconds; then lookups ask the store.
    } finally {
      this.#beating = false
    }
  }

  /** Reads the purges that were missed. Concurrent callers share one read. */
  catchUp(insist = false): Promise<void> {
    this.#reading ??= this.#readOn(insist)
    return this.#reading
  }

  async #readOn(insist: boolean): Promise<void> {
    try {
      let from = this.#known
      for (let hasMore = true; hasMore; ) {
        this.#missing = 0
        const heard = this.#newest
        const sentAt = this.#clock.now()
        const news = await this.#commands.read(from, this.#run, insist)
        this.#learn(news)
        // The server does not have what was heard of before it was asked: told so, it makes void
        // what was made before.
        const isBehind = !news.hasMore && this.#known < heard && from < heard
        from = isBehind ? heard : this.#known
        hasMore = news.hasMore || isBehind
        if (hasMore) continue
        this.#confirm(sentAt)
        this.#doubted = false
      }
    } finally {
      this.#reading = undefined
    }
    if (this.#missing > this.#known) this.#repair()
  }

  #learn({ isComplete, now, last, floor, run, events }: News): void {
    this.#newest = Math.max(this.#newest, last)
    // Marks dropped up to `#known` are known here, so nothing is forgotten for them.
    if (!isComplete) this.#hooks.onForget(floor > this.#known ? floor : 0)
    for (const event of events) this.#apply(event, Math.max(0, (now - event.position) / 1000))
    this.#known = Math.max(this.#known, last)
    this.#run = run
  }

  #apply({ of, name, soft, position }: PurgeEvent, agoMs: number): void {
    if (this.#applied.has(position)) return
    this.#applied.add(position)
    if (this.#applied.size > MOST_APPLIED) {
      for (const oldest of this.#applied) {
        this.#applied.delete(oldest)
        break
      }
    }
    this.#newest = Math.max(this.#newest, position)
    if (of === 'key') this.#hooks.onPurge(name, { soft })
    else this.#hooks.onMark({ subject: name, soft, position, agoMs })
  }

  #follow(position: Position, prev: Position): void {
    if (position <= this.#known) return
    if (prev === this.#known) {
      this.#known = position
      return
    }
    this.#missing = Math.max(this.#missing, position)
    this.#repair()
  }

  #isImplausible({ position }: PurgeEvent, agoMs: number | undefined): boolean {
    const isAhead = agoMs !== undefined && agoMs < -AHEAD_MS
    return isAhead && position > this.#newest + AHEAD_MS * 1000
  }

  #confirm(at: number): void {
    this.#confirmedAt = Math.max(this.#confirmedAt, at)
  }

  /** In the background; if it fails, the next message, heartbeat or lookup tries again. */
  #repair(): void {
    if (this.#reading !== undefined) return
    this.catchUp().catch((error) => this.#hooks.onError('read-purges', error))
  }
}
