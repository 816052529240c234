// The time of the whole simulation: a queue of events, run in order, one a step. Between two steps
// every promise has settled.

import { drain } from './drain.ts'

export interface Task {
  readonly at: number
  readonly order: number
  run: (() => void) | undefined
}

export class Kernel {
  now = 0
  steps = 0
  #order = 0
  readonly #heap: Task[] = []
  readonly #onSettled: () => void

  /** `onSettled` is called at the end of each step. */
  constructor(onSettled: () => void) {
    this.#onSettled = onSettled
  }

  /** Runs once, after `delayMs`. Events of the same time run in the order of these calls. */
  after(delayMs: number, run: () => void): Task {
    const task: Task = { at: this.now + Math.max(0, delayMs), order: this.#order++, run }
    this.#push(task)
    return task
  }

  /** Takes the next step. False: there is none until `end`. */
  step(end: number): boolean {
    for (;;) {
      const next = this.#heap[0]
      if (next === undefined || next.at > end) return false
      this.#pop()
      const { run } = next
      if (run === undefined) continue
      next.run = undefined
      this.now = next.at
      this.steps += 1
      run()
      drain()
      this.#onSettled()
      return true
    }
  }

  #push(task: Task): void {
    const heap = this.#heap
    let i = heap.push(task) - 1
    while (i > 0) {
      const parent = (i - 1) >> 1
      if (!isBefore(task, heap[parent] as Task)) break
      heap[i] = heap[parent] as Task
      i = parent
    }
    heap[i] = task
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop() as Task
    const { length } = heap
    if (length === 0) return
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= length) break
      if (child + 1 < length && isBefore(heap[child + 1] as Task, heap[child] as Task)) child += 1
      if (!isBefore(heap[child] as Task, last)) break
      heap[i] = heap[child] as Task
      i = child
    }
    heap[i] = last
  }
}

function isBefore(a: Task, b: Task): boolean {
  return a.at === b.at ? a.order < b.order : a.at < b.at
}
