// Concurrency slots, which limit the runs without a lease in one process. Leases need the store. If
// the store is unavailable, nothing else limits the load on the origin. The queue for a slot is
// first in, first out.

import type { Clock } from '../ports/clock.ts'

/** Frees the slot. A second call does nothing. */
export type FreeSlot = () => void

/** The slots for runs without a lease. */
export type Slots = Pick<OriginSlots, 'take' | 'queue'>

export class OriginSlots {
  readonly #most: number
  #taken = 0
  #isCalling = false
  /** Callbacks of the queued runs, in order of arrival. */
  readonly #queue = new Set<(freeSlot: FreeSlot) => void>()

  constructor(most: number) {
    this.#most = most
  }

  get taken(): number {
    return this.#taken
  }

  get queued(): number {
    return this.#queue.size
  }

  /** Takes a slot. Undefined if none is free, or if other runs queue for one. */
  take(): FreeSlot | undefined {
    return this.#taken < this.#most && this.#queue.size === 0 ? this.#take() : undefined
  }

  /** Takes a slot above the limit. The slot counts until it is freed, but at most for `forMs`. */
  takeAboveLimit(clock: Clock, forMs: number): FreeSlot {
    const freeSlot = this.#take()
    const timer = clock.setTimer(forMs, freeSlot)
    return () => {
      timer.cancel()
      freeSlot()
    }
  }

  /** Calls `onTurn` when the run gets a slot. Returns a function that leaves the queue. */
  queue(onTurn: (freeSlot: FreeSlot) => void): () => void {
    const turn = (freeSlot: FreeSlot) => onTurn(freeSlot)
    this.#queue.add(turn)
    return () => void this.#queue.delete(turn)
  }

  #take(): FreeSlot {
    this.#taken += 1
    let isFreed = false
    return () => {
      if (isFreed) return
      isFreed = true
      this.#taken -= 1
      this.#callNext()
    }
  }

  /** A loop, because a run may end at once and free its slot while it is called. */
  #callNext(): void {
    if (this.#isCalling) return
    this.#isCalling = true
    try {
      for (const next of this.#queue) {
        if (this.#taken >= this.#most) return
        this.#queue.delete(next)
        next(this.#take())
      }
    } finally {
      this.#isCalling = false
    }
  }
}

/** One slot for all keys of a call, because one run of the origin has all of them. */
export class SharedSlot implements Slots {
  readonly #slots: Slots
  readonly #queue = new Set<(freeSlot: FreeSlot) => void>()
  #freeSlot: FreeSlot | undefined
  #users = 0
  #leaveQueue: (() => void) | undefined

  constructor(slots: Slots) {
    this.#slots = slots
  }

  take(): FreeSlot | undefined {
    this.#freeSlot ??= this.#slots.take()
    return this.#freeSlot && this.#share()
  }

  queue(onTurn: (freeSlot: FreeSlot) => void): () => void {
    const turn = (freeSlot: FreeSlot) => onTurn(freeSlot)
    this.#queue.add(turn)
    this.#leaveQueue ??= this.#slots.queue((freeSlot) => this.#onTurn(freeSlot))
    return () => {
      if (!this.#queue.delete(turn) || this.#queue.size > 0) return
      this.#leaveQueue?.()
      this.#leaveQueue = undefined
    }
  }

  #onTurn(freeSlot: FreeSlot): void {
    this.#leaveQueue = undefined
    this.#freeSlot = freeSlot
    const turns = [...this.#queue].map((turn) => [turn, this.#share()] as const)
    this.#queue.clear()
    for (const [turn, free] of turns) turn(free)
  }

  /** The slot is free when all of its users have freed it. */
  #share(): FreeSlot {
    this.#users += 1
    let isFreed = false
    return () => {
      if (isFreed) return
      isFreed = true
      this.#users -= 1
      if (this.#users > 0) return
      this.#freeSlot?.()
      this.#freeSlot = undefined
    }
  }
}
