// What is known of each server: whether it answers, how long it is waited for, and its clock. The nodes of a
// cluster fail one by one, and their clocks are not the same.

import type { Clock } from '@stampede/core/store'
import { Breaker } from './breaker.ts'
import { Patience } from './patience.ts'
import { ServerClock } from './server-clock.ts'

export interface Server {
  readonly breaker: Breaker
  readonly patience: Patience
  readonly clock: ServerClock
}

/** Nodes come and go under new names; the longest known is forgotten, and is met as a stranger. */
const MOST_SERVERS = 2_000

export class Servers {
  readonly #clock: Clock
  readonly #budgetMs: number
  readonly #byName = new Map<string, Server>()

  constructor(clock: Clock, budgetMs: number) {
    this.#clock = clock
    this.#budgetMs = budgetMs
  }

  get(name: string): Server {
    const known = this.#byName.get(name)
    if (known !== undefined) return known
    const patience = new Patience(this.#clock, this.#budgetMs)
    const clock = new ServerClock(this.#clock, patience)
    const server = { breaker: new Breaker(this.#clock), patience, clock }
    this.#byName.set(name, server)
    if (this.#byName.size > MOST_SERVERS) {
      for (const oldest of this.#byName.keys()) {
        this.#byName.delete(oldest)
        break
      }
    }
    return server
  }
}
