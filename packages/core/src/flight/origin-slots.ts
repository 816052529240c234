// Bounds the runs of the origin that have no lease, per process: without the store, nothing else does.
// A run that finds no free place waits in a queue, first in, first out.

import type { Clock } from '../ports/clock.ts'

/** Gives a place back. Calling it again does nothing. */
export type Leave = () => void

export class Places {
  readonly #most: number
  #taken = 0
  /** In order of arrival. */
  readonly #queue = new Set<(leave: Leave) => void>()

  constructor(most: number) {
    this.#most = most
  }

  get taken(): number {
    return this.#taken
  }

  get queued(): number {
    return this.#queue.size
  }

  /** A place, if there is one and nobody queues for it. */
  enter(): Leave | undefined {
    return this.#taken < this.#most && this.#queue.size === 0 ? this.#take() : undefined
  }

  /** For a run that is made however many there are. It counts until it is over, or `forMs` are. */
  force(clock: Clock, forMs: number): Leave {
    const leave = this.#take()
    const timer = clock.setTimer(forMs, leave)
    return () => {
      timer.cancel()
      leave()
    }
  }

  /** `onTurn` is given a place when there is one for it. Returns how to leave the queue. */
  queue(onTurn: (leave: Leave) => void): () => void {
    const turn = (leave: Leave) => onTurn(leave)
    this.#queue.add(turn)
    return () => void this.#queue.delete(turn)
  }

  #take(): Leave {
    this.#taken += 1
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#taken -= 1
      this.#callNext()
    }
  }

  #callNext(): void {
    const [next] = this.#queue
    if (next === undefined || this.#taken >= this.#most) return
    this.#queue.delete(next)
    next(this.#take())
  }
}
