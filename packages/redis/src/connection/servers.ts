// The state of each server: circuit breaker, queue and clock. The nodes of a cluster fail one by
// one, and their clocks differ. Also the time limits of operations in flight, to all servers.

import type { Clock } from '@stampede/core/store'

export interface Server {
  readonly breaker: Breaker
  readonly queue: CommandQueue
  readonly clock: ServerClock
}

/**
 * Nodes come and go under new names. Beyond this number, the oldest is evicted and treated as new.
 */
const MAX_SERVERS = 2_000

export class Servers {
  readonly #clock: Clock
  readonly #byName = new Map<string, Server>()
  readonly #serverOf: ((record: string) => string) | undefined
  /** Whether one command may have several records. Not in a cluster. */
  mayShareCommands: boolean
  /** Undefined in a cluster. */
  readonly #only: Server | undefined

  /** `serverOf`: only in a cluster, the name of the server that has a record. */
  constructor(clock: Clock, serverOf?: (record: string) => string) {
    this.#clock = clock
    this.#serverOf = serverOf
    this.mayShareCommands = serverOf === undefined
    this.#only = serverOf === undefined ? this.get('') : undefined
  }

  /** The server that has this record. */
  of(record: string): Server {
    return this.#only ?? this.get(this.#serverOf?.(record) ?? '')
  }

  get hasOpenBreaker(): boolean {
    for (const { breaker } of this.#byName.values()) if (breaker.isOpen) return true
    return false
  }

  get(name: string): Server {
    const known = this.#byName.get(name)
    if (known !== undefined) return known
    const clock = this.#clock
    const [breaker, queue] = [new Breaker(clock), new CommandQueue()]
    const server = { breaker, queue, clock: new ServerClock(clock) }
    this.#byName.set(name, server)
    const [oldest = ''] = this.#byName.keys()
    if (this.#byName.size > MAX_SERVERS) this.#byName.delete(oldest)
    return server
  }
}

// A circuit breaker. While Redis is unavailable, commands fail at once instead of waiting for their
// time budget. From time to time, one command may try again (a probe).

/** Consecutive failures that open the breaker. */
const THRESHOLD = 3
/** Time for which the breaker stays open before one operation may try again. */
const OPEN_MS = 500

export class Breaker {
  readonly #clock: Clock
  #failures = 0
  #openUntil = 0
  #probing = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get isOpen(): boolean {
    return this.#failures >= THRESHOLD
  }

  /** Whether the latest operations failed, but too few of them to open the breaker. */
  get isDoubtful(): boolean {
    return this.#failures > 0 && this.#failures < THRESHOLD
  }

  /**
   * Whether the caller may send a command. After `true`, it must report the result with `succeeded`
   * or `failed`.
   */
  mayTry(): boolean {
    if (this.#failures < THRESHOLD) return true
    if (this.#probing || this.#clock.now() < this.#openUntil) return false
    this.#probing = true
    return true
  }

  succeeded(): void {
    this.#failures = 0
    this.#probing = false
  }

  failed(): void {
    this.#failures += 1
    this.#probing = false
    this.#openUntil = this.#clock.now() + OPEN_MS
  }
}

// The operations in flight to one server, and the queue in front of them. Redis runs one command at
// a time. So more commands in flight gain nothing, and would spend their time budgets in its
// socket. A command for many keys counts as that many: it is as much work for Redis and its socket.

/**
 * Limits of keys in flight. Operations that begin something, such as lookups, leave room for those
 * that end something: commits, releases, renewals and purges.
 */
const MOST_BEGINNING = 128
const MOST = 192

interface Queued {
  /** How many keys it has. */
  readonly size: number
  /** Called when the operation has its turn. */
  start(): void
}

export class CommandQueue {
  #inFlight = 0
  readonly #beginning: Queued[] = []
  readonly #ending: Queued[] = []
  /** Operations that start after this turn: those that end something, and those that begin. */
  #starting: { readonly ending: Queued[]; readonly beginning: Queued[] } | undefined

  get queued(): number {
    return this.#beginning.length + this.#ending.length
  }

  /**
   * Starts the operation as soon as there is room for one more key, first in, first out. Each
   * operation needs a call of `leave` at its end. Returns whether the operation has to wait.
   */
  enter(operation: Queued, begins = false): boolean {
    const queue = begins ? this.#beginning : this.#ending
    const isQueued = queue.length > 0 || this.#inFlight >= (begins ? MOST_BEGINNING : MOST)
    if (isQueued) queue.push(operation)
    else this.#startSoon(operation, begins)
    return isQueued
  }

  /**
   * If the server may have become unavailable, queued operations wait for the outcome of those in
   * flight. Otherwise the first ones would cost their callers a whole time budget more.
   */
  leave({ size }: Pick<Queued, 'size'>, breaker: Pick<Breaker, 'isDoubtful'>): void {
    this.#inFlight -= size
    if (this.#ending.length === 0 && this.#beginning.length === 0) return
    if (this.#inFlight > 0 && breaker.isDoubtful) return
    while (this.#inFlight < MOST) {
      const ending = this.#ending.shift()
      const mayBegin = this.#inFlight < MOST_BEGINNING
      const next = ending ?? (mayBegin ? this.#beginning.shift() : undefined)
      if (next === undefined) return
      this.#startSoon(next, ending === undefined)
    }
  }

  /**
   * Starts an operation after the current turn of the event loop. A loop may begin thousands of
   * operations in one turn, and no time budget must begin before the command can be sent.
   *
   * Commits come before lookups. Redis reads 16 KiB at a time, and so replies to the lookups of a
   * turn at once. If commits with their frames came in between, each turn would split into several.
   */
  #startSoon(operation: Queued, begins: boolean): void {
    this.#inFlight += operation.size
    if (this.#starting === undefined) {
      this.#starting = { ending: [], beginning: [] }
      process.nextTick(this.#startAll)
    }
    this.#starting[begins ? 'beginning' : 'ending'].push(operation)
  }

  readonly #startAll = (): void => {
    const { ending = [], beginning = [] } = this.#starting ?? {}
    this.#starting = undefined
    for (const each of ending) each.start()
    for (const each of beginning) each.start()
  }
}

// The time limits of the operations in flight.

/** A step that waits for a reply. */
export interface Limited {
  /** How long it may wait. */
  readonly limitMs: number
  /** When its time is over. */
  dueAt: number
  /** Index among the pending steps. -1: the step is not pending. */
  place: number
  /** Called when its time is over. Must not throw. */
  expire(): void
}

/** The time limits of all steps of one link, on one timer. */
export class TimeLimits {
  readonly #clock: Clock
  /**
   * The pending steps, in no order. An array, because the tables that a Map outgrows keep its
   * deleted keys alive for the garbage collector.
   */
  readonly #pending: Limited[] = []
  #beginning: Limited[] = []
  #timer: NodeJS.Timeout | undefined
  /** When the timer fires. */
  #timerAt = Number.POSITIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * The time begins at the end of this turn of the event loop. Before, the callers of other replies
   * may block the loop, and the socket is corked.
   */
  add(limited: Limited): void {
    limited.dueAt = Number.POSITIVE_INFINITY
    limited.place = this.#pending.push(limited) - 1
    if (this.#beginning.push(limited) === 1) setImmediate(this.#begin)
  }

  delete(limited: Limited): void {
    const { place } = limited
    if (place === -1) return
    limited.place = -1
    const last = this.#pending.pop()
    if (last === undefined || last === limited) return
    this.#pending[place] = last
    last.place = place
  }

  readonly #begin = (): void => {
    const now = this.#clock.now()
    for (const limited of this.#beginning) {
      if (limited.place === -1) continue
      const dueAt = now + limited.limitMs
      limited.dueAt = dueAt
      if (dueAt < this.#timerAt) this.#wakeAt(dueAt)
      // The clock went on while the timer stood still, as it does in a suspended machine.
      else if (this.#timerAt < now) this.#wakeAt(now + 1)
    }
    this.#beginning = []
  }

  #wakeAt(at: number): void {
    clearTimeout(this.#timer)
    this.#timerAt = at
    const onTimer = () => {
      // A reply to a step that is due later may not be read by then.
      const now = this.#clock.now()
      afterReplies(() => this.#expire(now))
    }
    this.#timer = setTimeout(onTimer, Math.max(1, at - this.#clock.now())).unref()
  }

  #expire(now: number): void {
    this.#timerAt = Number.POSITIVE_INFINITY
    for (const limited of [...this.#pending]) {
      if (limited.place === -1) continue
      if (limited.dueAt <= now) limited.expire()
      else if (limited.dueAt < this.#timerAt) this.#wakeAt(limited.dueAt)
    }
  }
}

/**
 * Node runs timers before it reads sockets. After a blocked event loop, the replies may already be
 * in the socket. Two turns of the loop deliver them.
 */
export function afterReplies(callback: () => void): void {
  setImmediate(() => setImmediate(callback))
}

// This process's estimate of the server's clock: a lower and an upper bound. Each reply with Redis
// TIME narrows them. A command can then carry its deadline, and a message has a known age.

export class ServerClock {
  readonly #clock: Clock
  /** Bounds of the server's clock minus the monotonic clock. Undefined: no reply yet. */
  #minOffset: number | undefined
  #maxOffset = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  now(): number {
    return this.#clock.now()
  }

  /** A reply shows that the server's clock was `serverNow` between `sentAt` and now. */
  observe(serverNow: number, sentAt: number): void {
    // NaN would stay in the bounds for ever.
    if (!Number.isFinite(serverNow)) return
    const now = this.#clock.now()
    const minOffset = serverNow - now
    const maxOffset = serverNow - sentAt
    const isApart =
      this.#minOffset !== undefined && (maxOffset < this.#minOffset || minOffset > this.#maxOffset)
    // A reply can only narrow the bounds. If the new bounds do not overlap the old ones, the clocks
    // have drifted apart or a clock was set. Then the old bounds are dropped.
    if (this.#minOffset === undefined || isApart) {
      this.#minOffset = minOffset
      this.#maxOffset = maxOffset
    } else {
      this.#minOffset = Math.max(this.#minOffset, minOffset)
      this.#maxOffset = Math.min(this.#maxOffset, maxOffset)
    }
  }

  /** Deadline of a command sent now, in ms of the server's clock. 0 before the first reply. */
  notAfter(budgetMs: number): number {
    if (this.#minOffset === undefined) return 0
    return Math.ceil(this.#clock.now() + this.#maxOffset + budgetMs)
  }

  /** The longest time that may have passed since `serverMs`. Undefined before the first reply. */
  agoAtMost(serverMs: number): number | undefined {
    if (this.#minOffset === undefined) return undefined
    return this.#clock.now() + this.#maxOffset - serverMs
  }

  /** The shortest time that may be left until `serverMs`. */
  atLeastUntil(serverMs: number): number {
    return serverMs - (this.#clock.now() + this.#maxOffset)
  }
}
