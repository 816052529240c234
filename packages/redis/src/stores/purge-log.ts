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
import {
  type EventId,
  lacks,
  type News,
  NO_EVENT,
  type Purge,
  type PurgeEvent,
  positionOf,
  readMessage,
} from './purge-news.ts'

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
  readonly #applied = new Map<Position, EventId>()
  /** Every purge up to this one was applied. */
  #known: EventId = NO_EVENT
  /** run_id of the server that told `#known`. */
  #run = ''
  /** The newest purge heard of. */
  #newest: EventId = NO_EVENT
  /** Position of the newest purge heard of that does not follow on `#known`. */
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
    return positionOf(this.#newest)
  }

  /** The moment up to which it is certain that no purge was missed, on this process's clock. */
  get confirmedAt(): number {
    return this.#confirmedAt
  }

  /** Resolves when this process has applied the purge, too. */
  async append(purge: Purge): Promise<void> {
    const sentAt = this.#clock.now()
    const { id, prev, isTold } = await this.#commands.append(purge, this.#newest)
    this.#apply({ ...purge, id }, 0)
    this.#follow(id, prev)
    if (!lacks(this.#known, id)) this.#confirm(sentAt)
    if (!isTold) throw storeUnavailable('redis', 'purge', new Error(UNANNOUNCED))
  }

  /**
   * Applies the purge at once. A purge that is applied twice or out of order drops too much at
   * worst.
   */
  receive(message: string): void {
    const event = readMessage(message)
    const agoMs = event && this.#clock.agoAtMost(positionOf(event.id) / 1000)
    if (event === undefined || this.#isImplausible(event, agoMs)) {
      this.#repair()
      return
    }
    this.#apply(event, Math.max(0, agoMs ?? 0))
    this.#follow(event.id, event.prev)
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
      // Messages may have told more while the reply was on its way.
      const isCovered = known !== NO_EVENT && (last === known || last === this.#known)
      if (isCovered && !lacks(this.#known, this.#newest)) this.#confirm(sentAt)
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
        const isBehind = !news.hasMore && lacks(this.#known, heard) && from !== heard
        from = isBehind ? heard : this.#known
        hasMore = news.hasMore || isBehind
        if (hasMore) continue
        this.#confirm(sentAt)
        this.#doubted = false
      }
    } finally {
      this.#reading = undefined
    }
    if (this.#missing > positionOf(this.#known)) this.#repair()
  }

  #learn({ isComplete, now, last, floor, run, events }: News): void {
    if (positionOf(last) >= this.position) this.#newest = last
    // Purges of keys may be missing, so all copies are dropped. Marks are missing only above `#known`.
    if (!isComplete) this.#hooks.onForget(floor > positionOf(this.#known) ? floor : 0)
    for (const event of events) this.#apply(event, Math.max(0, (now - positionOf(event.id)) / 1000))
    if (positionOf(last) >= positionOf(this.#known)) this.#known = last
    this.#run = run
  }

  #apply({ of, name, soft, id }: PurgeEvent, agoMs: number): void {
    const position = positionOf(id)
    const applied = this.#applied.get(position)
    if (applied !== undefined && !lacks(applied, id)) return
    this.#applied.set(position, id)
    if (this.#applied.size > MOST_APPLIED) {
      for (const oldest of this.#applied.keys()) {
        this.#applied.delete(oldest)
        break
      }
    }
    if (position > this.position) this.#newest = id
    if (of === 'key') this.#hooks.onPurge(name, { soft })
    else this.#hooks.onMark({ subject: name, soft, position, agoMs })
  }

  #follow(id: EventId, prev: EventId): void {
    if (positionOf(id) <= positionOf(this.#known)) return
    if (prev === this.#known) {
      this.#known = id
      return
    }
    this.#missing = Math.max(this.#missing, positionOf(id))
    this.#repair()
  }

  #isImplausible({ id }: PurgeEvent, agoMs: number | undefined): boolean {
    const isAhead = agoMs !== undefined && agoMs < -AHEAD_MS
    return isAhead && positionOf(id) > this.position + AHEAD_MS * 1000
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
