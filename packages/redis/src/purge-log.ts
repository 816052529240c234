// What this process knows of the purges of the fleet. They are heard one by one, each with the position of the one before
// it, so that a gap is noticed and read from the log; a heartbeat notices what was lost without a gap.

import { CONFIRMED_FOR_MS, type Position, type StoreHooks, storeUnavailable } from '@stampede/core'
import type { PurgeCommands } from './purge-commands.ts'
import { type News, type Purge, type PurgeEvent, readMessage } from './purge-news.ts'
import type { ServerClock } from './server-clock.ts'

/** Purges remembered, so that the echo of one is not taken for another. */
const MOST_APPLIED = 1_000
/** A message from so far ahead of the server's clock is not its own. */
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
  #newest: Position = 0
  /** The newest that was heard of and does not follow on what is known. */
  #missing: Position = 0
  #confirmedAt = Number.NEGATIVE_INFINITY
  /** Another server may have taken over, which knows less. */
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

  /** As of when it is certain that nothing was missed, on this process's clock. */
  get confirmedAt(): number {
    return this.#confirmedAt
  }

  /** Resolves when this process has applied it, too. */
  async append(purge: Purge): Promise<void> {
    const sentAt = this.#clock.now()
    const { position, prev, isTold } = await this.#commands.append(purge, this.#newest)
    this.#apply({ ...purge, position }, 0)
    this.#follow(position, prev)
    if (this.#known >= position) this.#confirm(sentAt)
    if (!isTold) throw storeUnavailable('redis', 'purge', new Error(UNANNOUNCED))
  }

  /** It is applied at once, whatever came before: twice, or out of order, it drops too much at worst. */
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

  /** Messages are heard from now on; what came before is read after that, so that nothing falls between. */
  async resume(): Promise<void> {
    await this.#reading?.catch(() => {})
    await this.catchUp(true)
  }

  /** Nothing was missed as of some seconds ago. Else a promise until that is so; rejects if it cannot be known. */
  confirm(): Promise<void> | undefined {
    const isOld = this.#clock.now() - this.#confirmedAt >= CONFIRMED_FOR_MS
    return isOld || this.#doubted ? this.catchUp() : undefined
  }

  /**
   * A connection was lost. Entries that a purge had removed may be there again after a fail-over, so the next who looks for
   * one asks first, and tells the server what it has forgotten.
   */
  doubt(): void {
    this.#doubted = true
  }

  /** One cheap look; reads only if something was missed. */
  async beat(): Promise<void> {
    if (this.#beating || this.#reading !== undefined) return
    this.#beating = true
    try {
      const [known, sentAt] = [this.#known, this.#clock.now()]
      const last = await this.#commands.last()
      // One that is less than what was known comes from a server that took over too early.
      if (known > 0 && last !== undefined && last >= known && last <= this.#known)
        this.#confirm(sentAt)
      else await this.catchUp()
    } catch {
      // The copies in memory are trusted for a while, and then the store is asked again.
    } finally {
      this.#beating = false
    }
  }

  /** Learns what was missed; all who ask meanwhile share it. */
  catchUp(insist = false): Promise<void> {
    this.#reading ??= this.#readOn(insist)
    return this.#reading
  }

  async #readOn(insist: boolean): Promise<void> {
    try {
      for (let hasMore = true; hasMore; ) {
        this.#missing = 0
        const sentAt = this.#clock.now()
        const news = await this.#commands.read(this.#known, insist)
        this.#learn(news)
        hasMore = news.hasMore
        if (hasMore) continue
        this.#confirm(sentAt)
        this.#doubted = false
      }
    } finally {
      this.#reading = undefined
    }
    if (this.#missing > this.#known) this.#repair()
  }

  #learn({ isComplete, now, last, floor, events }: News): void {
    this.#newest = Math.max(this.#newest, last)
    // Marks that were dropped before what is known are known.
    if (!isComplete) this.#hooks.onForget(floor > this.#known ? floor : 0)
    for (const event of events) this.#apply(event, Math.max(0, (now - event.position) / 1000))
    this.#known = Math.max(this.#known, last)
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
