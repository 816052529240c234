// The commands in flight to one server, and the queue in front of them. Redis runs one command at a
// time. So more commands in flight gain nothing, and would spend their time budgets in its socket.

import type { Clock } from '@stampede/core/store'

/**
 * Limits of commands in flight. Commands that begin something, such as lookups, leave room for
 * those that end something: commits, releases, renewals, undos and purges.
 */
const MOST_BEGINNING = 128
const MOST = 192
/** Longest wait in the queue. The default of `waitMs`, by which most callers are gone. */
const LONGEST_WAIT_MS = 30_000

type Start = () => void

export class CommandQueue {
  readonly #clock: Clock
  #inFlight = 0
  readonly #beginning: Start[] = []
  readonly #ending: Start[] = []

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get queued(): number {
    return this.#beginning.length + this.#ending.length
  }

  /**
   * Resolves when the command may be sent, first in, first out. False if it has waited too long.
   * Each call needs a call of `leave` after the reply. `onQueued` is called if the command has to
   * wait.
   */
  enter(begins: boolean, onQueued?: () => void): boolean | Promise<boolean> {
    const queue = begins ? this.#beginning : this.#ending
    if (queue.length === 0 && this.#inFlight < (begins ? MOST_BEGINNING : MOST)) {
      this.#inFlight += 1
      return true
    }
    const since = this.#clock.now()
    onQueued?.()
    return new Promise((resolve) => {
      queue.push(() => resolve(this.#clock.now() - since < LONGEST_WAIT_MS))
    })
  }

  /**
   * `isDoubtful`: the server may have become unavailable. Then queued commands wait for the outcome
   * of those in flight. Otherwise the first ones would cost their callers a whole time budget more.
   */
  leave(isDoubtful: boolean): void {
    this.#inFlight -= 1
    if (isDoubtful && this.#inFlight > 0) return
    while (this.#inFlight < MOST) {
      const mayBegin = this.#inFlight < MOST_BEGINNING
      const next = this.#ending.shift() ?? (mayBegin ? this.#beginning.shift() : undefined)
      if (next === undefined) return
      this.#inFlight += 1
      next()
    }
  }
}
