// The operations in flight to one server, and the queue in front of them. Redis runs one command at
// a time. So more commands in flight gain nothing, and would spend their time budgets in its
// socket.

/**
 * Limits of operations in flight. Those that begin something, such as lookups, leave room for those
 * that end something: commits, releases, renewals, undos and purges.
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
  readonly #starting: Queued[] = []

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
      this.#startSoon(operation)
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
      const mayBegin = this.#inFlight < MOST_BEGINNING
      const next = this.#ending.shift() ?? (mayBegin ? this.#beginning.shift() : undefined)
      if (next === undefined) return
      this.#startSoon(next)
    }
  }

  /**
   * Starts an operation after the current turn of the event loop. A loop may begin thousands of
   * operations in one turn, and no time budget must begin before the command can be sent.
   */
  #startSoon(operation: Queued): void {
    this.#inFlight += 1
    if (this.#starting.push(operation) > 1) return
    process.nextTick(() => {
      for (const each of this.#starting.splice(0)) each.start()
    })
  }
}
