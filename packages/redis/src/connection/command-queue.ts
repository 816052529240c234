// The operations in flight to one server, and the queue in front of them. Redis runs one command at
// a time. So more commands in flight gain nothing, and would spend their time budgets in its
// socket.

/**
 * Limits of operations in flight. Those that begin something, such as lookups, leave room for those
 * that end something: commits, releases, renewals and purges.
 */
const MOST_BEGINNING = 128
const MOST = 192

interface Queued {
  /** Called when the operation has its turn. */
  start(): void
}

interface EnterOptions {
  readonly begins?: boolean
  readonly onQueued?: (() => void) | undefined
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
   * Starts the operation as soon as there is room, first in, first out. Each operation needs a call
   * of `leave` at its end. `onQueued` is called if the operation has to wait.
   */
  enter(operation: Queued, { begins = false, onQueued }: EnterOptions): void {
    const queue = begins ? this.#beginning : this.#ending
    if (queue.length === 0 && this.#inFlight < (begins ? MOST_BEGINNING : MOST)) {
      this.#startSoon(operation, begins)
    } else {
      queue.push(operation)
      onQueued?.()
    }
  }

  /**
   * `isDoubtful`: the server may have become unavailable. Then queued operations wait for the
   * outcome of those in flight. Otherwise the first ones would cost their callers a whole time
   * budget more.
   */
  leave(isDoubtful: boolean): void {
    this.#inFlight -= 1
    if (isDoubtful && this.#inFlight > 0) return
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
    this.#inFlight += 1
    if (this.#starting === undefined) {
      this.#starting = { ending: [], beginning: [] }
      process.nextTick(() => this.#startAll())
    }
    this.#starting[begins ? 'beginning' : 'ending'].push(operation)
  }

  #startAll(): void {
    const { ending = [], beginning = [] } = this.#starting ?? {}
    this.#starting = undefined
    for (const each of ending) each.start()
    for (const each of beginning) each.start()
  }
}
