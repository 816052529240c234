// The state of each server: circuit breaker, queue and clock. The nodes of a cluster fail
// one by one, and their clocks differ.

import type { Clock } from '@stampede/core/store'
import { Breaker } from './breaker.ts'
import { CommandQueue } from './command-queue.ts'
import { ServerClock } from './server-clock.ts'

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

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get hasOpenBreaker(): boolean {
    for (const { breaker } of this.#byName.values()) if (breaker.isOpen) return true
    return false
  }

  get(name: string): Server {
    const known = this.#byName.get(name)
    if (known !== undefined) return known
    const clock = this.#clock
    const server = {
      breaker: new Breaker(clock),
      queue: new CommandQueue(),
      clock: new ServerClock(clock),
    }
    this.#byName.set(name, server)
    if (this.#byName.size > MAX_SERVERS) {
      for (const oldest of this.#byName.keys()) {
        this.#byName.delete(oldest)
        break
      }
    }
    return server
  }
}
