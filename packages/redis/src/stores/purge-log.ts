// The purges of the fleet that this process knows. Each message has the ID of the previous purge.
// If the process has not applied that previous purge, it reads the log. A heartbeat notices
// messages that were lost without a later one.

import type { StampedeStore } from '@stampede/core'
import { CONFIRMED_FOR_MS, storeUnavailable } from '@stampede/core/store'
import type { ServerClock } from '../connection/servers.ts'
import type { PurgeCommands } from './purge-commands.ts'
import {
  type EventId,
  earlier,
  lacks,
  NO_EVENT,
  type Position,
  type Purge,
  type PurgeEvent,
  type PurgePage,
  positionOf,
  readMessage,
} from './purge-events.ts'

type StoreHooks = Parameters<StampedeStore['attach']>[0]

/**
 * Number of applied purges that are remembered, so that a repeated message is not applied again.
 */
const MAX_APPLIED = 1_000
/**
 * A message whose position is further in the future than this was not sent by the server of the
 * log.
 */
const MAX_AHEAD_MS = 60_000

/** Most purges of one command, which no other command of the fleet can interrupt. */
const MOST_PURGES = 128

const NOT_PUBLISHED =
  'the purge is stored, but PUBLISH is refused: other processes may serve their copies for up to 5 s. ' +
  'Allow the Redis user to PUBLISH'

interface Hooks extends Pick<StoreHooks, 'onPurge' | 'onMark' | 'onForget' | 'onError'> {
  /** Called before `onPurge`, `onMark` and `onForget`. */
  onChange(): void
}
type Clock = Pick<ServerClock, 'now' | 'agoAtMost'>

export class RedisPurges {
  readonly #commands: PurgeCommands
  readonly #clock: Clock
  readonly #hooks: Hooks
  readonly #applied = new Map<Position, EventId>()
  /** This process has applied every purge up to this one. */
  #known: EventId = NO_EVENT
  /** run_id of the server that sent `#known`. Empty before the first read. */
  #run = ''
  /** The newest purge that this process has received. */
  #newest: EventId = NO_EVENT
  /** Position of the newest received purge. A fill that begins now comes after this purge. */
  position: Position = 0
  /**
   * Purges that were received without those between them and `#known`. The log that this process
   * reads may lack them, because another server has taken over.
   */
  readonly #unlinked = new Set<EventId>()
  /** Moment on this process's clock up to which it has certainly missed no purge. */
  confirmedAt: number = Number.NEGATIVE_INFINITY
  /** Until this moment, a lookup needs no read of the log (`catchUp`). */
  confirmedUntil: number = Number.NEGATIVE_INFINITY
  /** Whether a server that lacks purges may have taken over. */
  #mayHaveFailedOver = false
  #reading: Promise<void> | undefined
  #isBeating = false
  /** The purges of the next command. */
  #soon: { readonly purges: Purge[]; readonly end: Promise<void> } | undefined

  constructor(commands: PurgeCommands, clock: Clock, hooks: Hooks) {
    this.#commands = commands
    this.#clock = clock
    this.#hooks = hooks
  }

  /**
   * Appends a purge after this turn: purges of one turn share commands. Resolves when the purge is
   * in the log and this process has applied it.
   */
  append(purge: Purge): Promise<void> {
    if (this.#soon === undefined || this.#soon.purges.length === MOST_PURGES) {
      const purges: Purge[] = []
      const end = new Promise<void>((resolve) => process.nextTick(resolve)).then(() => {
        this.#soon = undefined
        return this.#appendAll(purges)
      })
      this.#soon = { purges, end }
    }
    this.#soon.purges.push(purge)
    return this.#soon.end
  }

  async #appendAll(purges: readonly Purge[]): Promise<void> {
    const sentAt = this.#clock.now()
    const { id: last, prev, isPublished } = await this.#commands.append(purges, this.#newest)
    let before = prev
    for (const [i, purge] of purges.entries()) {
      const id = earlier(last, purges.length - 1 - i)
      this.#apply({ ...purge, id }, 0)
      this.#follow(id, before)
      before = id
    }
    if (!lacks(this.#known, last)) this.#confirm(sentAt)
    if (!isPublished) throw storeUnavailable('redis', 'purge', new Error(NOT_PUBLISHED))
  }

  /**
   * Applies a published purge at once. A purge that is applied twice or out of order can only drop
   * too many entries.
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

  /** Called when messages arrive again. A read of the log after that moment leaves out no purge. */
  async resume(): Promise<void> {
    await this.#reading?.catch(() => {})
    await this.catchUp(true)
  }

  /**
   * Called when a connection for commands was lost. After a fail-over, purged entries may be back.
   * So the next lookup first reads the log. If the log lacks known purges, the script makes all
   * entries outdated that are stored by then.
   */
  onConnectionLost(): void {
    this.#mayHaveFailedOver = true
    this.confirmedUntil = Number.NEGATIVE_INFINITY
  }

  /** Heartbeat: reads the log only if a purge was missed. */
  async beat(): Promise<void> {
    if (this.#isBeating || this.#reading !== undefined) return
    this.#isBeating = true
    try {
      const [known, sentAt] = [this.#known, this.#clock.now()]
      const last = await this.#commands.last()
      // While the reply was on its way, messages may have brought newer purges.
      const hasNewest = known !== NO_EVENT && (last === known || last === this.#known)
      if (hasNewest && this.#unlinked.size === 0) this.#confirm(sentAt)
      else await this.catchUp()
    } catch {
      // The process could not confirm that it missed no purge. Copies may be served for a few more
      // seconds. After that, each lookup goes to Redis.
    } finally {
      this.#isBeating = false
    }
  }

  /** Reads the purges that were missed. Concurrent callers share one read. */
  catchUp(ignoreBreaker = false): Promise<void> {
    this.#reading ??= this.#readAll(ignoreBreaker)
    return this.#reading
  }

  async #readAll(ignoreBreaker: boolean): Promise<void> {
    try {
      let from = this.#known
      for (let hasMore = true; hasMore; ) {
        const received = this.position
        const sentAt = this.#clock.now()
        const page = await this.#commands.read(from, this.#run, ignoreBreaker)
        this.#unlinked.delete(from)
        this.#applyPage(page)
        // The log lacks a purge that this process had received before the read. The next read sends
        // the ID of that purge. The script then makes all entries outdated that are stored by then.
        const lost = page.hasMore ? undefined : this.#lostPurge(received)
        from = lost ?? this.#known
        hasMore = page.hasMore || lost !== undefined
        if (hasMore) continue
        this.#mayHaveFailedOver = false
        this.#confirm(sentAt)
      }
    } finally {
      this.#reading = undefined
    }
    if (this.#unlinked.size > 0) this.#repair()
  }

  /** A purge that the log lacks, although this process has read the log up to its position. */
  #lostPurge(received: Position): EventId | undefined {
    const readUpTo = Math.max(received, positionOf(this.#known))
    return [...this.#unlinked].find((id) => positionOf(id) <= readUpTo)
  }

  #applyPage({ isComplete, now, last, floor, run, events }: PurgePage): void {
    if (positionOf(last) >= this.position) this.#setNewest(last)
    // Purges of keys may be missing, so this drops all copies. If the oldest known position is not
    // above `#known`, no purge of a subject is missing.
    if (!isComplete) {
      this.#unlinked.clear()
      this.#hooks.onChange()
      this.#hooks.onForget(floor > positionOf(this.#known) ? floor : 0)
    }
    for (const event of events) {
      this.#unlinked.delete(event.id)
      this.#apply(event, Math.max(0, (now - positionOf(event.id)) / 1000))
    }
    if (positionOf(last) >= positionOf(this.#known)) this.#known = last
    this.#run = run
  }

  #apply({ of, name, soft, id }: PurgeEvent, agoMs: number): void {
    const position = positionOf(id)
    const applied = this.#applied.get(position)
    if (applied !== undefined && !lacks(applied, id)) return
    this.#applied.set(position, id)
    if (this.#applied.size > MAX_APPLIED) dropOldest(this.#applied)
    if (position > this.position) this.#setNewest(id)
    this.#hooks.onChange()
    if (of === 'key') this.#hooks.onPurge(name, { soft })
    else this.#hooks.onMark({ subject: name, soft, position, agoMs })
  }

  #setNewest(id: EventId): void {
    this.#newest = id
    this.position = positionOf(id)
  }

  #follow(id: EventId, prev: EventId): void {
    if (positionOf(id) <= positionOf(this.#known)) return
    if (prev === this.#known) {
      this.#known = id
      this.#unlinked.delete(id)
      return
    }
    this.#unlinked.add(id)
    if (this.#unlinked.size > MAX_APPLIED) dropOldest(this.#unlinked)
    this.#repair()
  }

  #isImplausible({ id }: PurgeEvent, agoMs: number | undefined): boolean {
    const isAhead = agoMs !== undefined && agoMs < -MAX_AHEAD_MS
    return isAhead && positionOf(id) > this.position + MAX_AHEAD_MS * 1000
  }

  #confirm(at: number): void {
    this.confirmedAt = Math.max(this.confirmedAt, at)
    if (!this.#mayHaveFailedOver) this.confirmedUntil = this.confirmedAt + CONFIRMED_FOR_MS
  }

  /**
   * Reads the log in the background. After a failure, the next message, heartbeat or lookup reads
   * it again.
   */
  #repair(): void {
    if (this.#reading !== undefined) return
    this.catchUp().catch((error) => this.#hooks.onError('read-purges', error))
  }
}

function dropOldest<T>(all: Map<T, unknown> | Set<T>): void {
  for (const oldest of all.keys()) return void all.delete(oldest)
}
