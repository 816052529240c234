// Many deadlines on one timer, in a heap. Most deadlines are ended before they are due, so a timer
// for each of them would be wasted. Adding and ending one takes O(log n) steps.

import { type Clock, isOverdue, type Timer } from '../ports/clock.ts'

/** Something that is due at a time. An object can be in one `Deadlines` at a time. */
export interface Deadline {
  /** Time at which `due` is called, on the clock of the `Deadlines`. */
  at: number
  /** Index in the heap. -1: the deadline is not set. */
  place: number
  /** The earlier of two deadlines at one time is the one that was set first. */
  order: number
  due(): void
}

export class Deadlines {
  readonly #clock: Clock
  /** Gathers the operations of deadlines that are due at the same time, such as renewals. */
  readonly #together: (run: () => void) => void
  /** A binary heap: no deadline is due before its parent, at index `(place - 1) >> 1`. */
  readonly #heap: Deadline[] = []
  #timer: Timer | undefined
  #timerAt = Infinity
  #set = 0

  constructor(clock: Clock, together: (run: () => void) => void = (run) => run()) {
    this.#clock = clock
    this.#together = together
  }

  get size(): number {
    return this.#heap.length
  }

  /** Calls `due` once when the clock reaches `at`, never earlier. */
  set(due: Deadline | (() => void), at: number): Deadline {
    const deadline = typeof due === 'function' ? { at, place: -1, order: 0, due } : due
    this.end(deadline)
    deadline.at = at
    deadline.order = this.#set++
    this.#heap.push(deadline)
    this.#place(deadline, this.#heap.length - 1)
    const now = this.#clock.now()
    if (at < this.#timerAt || isOverdue(this.#timerAt, now)) this.#schedule(at, now)
    return deadline
  }

  /** Cancels a deadline. The timer keeps running for the next deadline. */
  end(deadline: Deadline | undefined): void {
    if (deadline === undefined || deadline.place === -1) return
    const { place } = deadline
    deadline.place = -1
    const last = this.#heap.pop()
    if (last !== undefined && last !== deadline) this.#place(last, place)
  }

  /** Cancels the timer if no deadline is left. */
  endTimer(): void {
    if (this.#heap.length > 0) return
    this.#timer?.cancel()
    this.#timerAt = Infinity
  }

  stop(): void {
    for (const deadline of this.#heap) deadline.place = -1
    this.#heap.length = 0
    this.endTimer()
  }

  #schedule(at: number, now: number): void {
    this.#timer?.cancel()
    this.#timerAt = isOverdue(this.#timerAt, now) ? now : at
    this.#timer = this.#clock.setTimer(this.#timerAt - now, () => {
      this.#timerAt = Infinity
      this.#together(() => this.#runDue())
    })
  }

  #runDue(): void {
    const now = this.#clock.now()
    const end = this.#set
    let first = this.#heap[0]
    // A deadline that is set during this loop waits for the next timer.
    while (first !== undefined && first.at <= now && first.order < end) {
      this.end(first)
      first.due()
      first = this.#heap[0]
    }
    if (first !== undefined && first.at < this.#timerAt) this.#schedule(first.at, now)
  }

  /**
   * Puts a deadline into the heap at a free place. Parents that are due later move down, or
   * children that are due earlier move up, until the order is right.
   */
  #place(deadline: Deadline, free: number): void {
    const heap = this.#heap
    const { at, order } = deadline
    let place = free
    while (place > 0) {
      const parent = heap[(place - 1) >> 1] as Deadline
      if (parent.at < at || (parent.at === at && parent.order < order)) break
      heap[place] = parent
      parent.place = place
      place = (place - 1) >> 1
    }
    for (;;) {
      let child = heap[2 * place + 1]
      const right = heap[2 * place + 2]
      if (child === undefined) break
      if (right !== undefined) {
        const isEarlier =
          right.at < child.at || (right.at === child.at && right.order < child.order)
        if (isEarlier) child = right
      }
      if (child.at > at || (child.at === at && child.order > order)) break
      heap[place] = child
      const next = child.place
      child.place = place
      place = next
    }
    heap[place] = deadline
    deadline.place = place
  }
}
