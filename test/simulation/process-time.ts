// The time of one simulated process. A paused process does nothing, and its clock goes on. Timers
// and input of the meantime are handled late, timers first, as in Node. The timers of a suspended
// machine stand still, and keep their remaining time. A killed process never does anything again.

import type { Clock } from '@stampede/core/store'
import { steadyClock } from '../../packages/core/src/ports/clock.ts'
import { drain } from './drain.ts'
import type { Kernel, Task } from './kernel.ts'

type Timer = ReturnType<Clock['setTimer']>

interface Pending {
  dueAt: number
  task: Task
  readonly fire: () => void
}

/**
 * The process whose step runs now. Code that takes a timer without a clock (packages/redis) gets it
 * from this one.
 */
let current: ProcessTime | undefined
/** Callbacks of `process.nextTick` in this step. */
const ticks: Array<() => void> = []

export class ProcessTime implements Clock {
  /** Pending timers, without those of intervals. */
  timers = 0
  isPaused = false
  isDead = false
  readonly #kernel: Kernel
  readonly #read: () => number
  /** During suspension the monotonic clock stands still, and this is its total. */
  #suspendedMs = 0
  /** A read of the clock during suspension adds a little time. */
  #askedMs = 0
  readonly random: () => number
  readonly #pending = new Set<Pending>()
  #suspendedAt: number | undefined
  #lateTimers: Array<() => void> = []
  #lateInput: Array<() => void> = []

  /** `zero`: the reading of its monotonic clock at the start of the simulation. */
  constructor(kernel: Kernel, zero: number, random: () => number) {
    this.random = random
    this.#kernel = kernel
    const wall = () => this.wallNow()
    this.#read = steadyClock(() => this.#monotonic() + zero, wall)
  }

  now(): number {
    // A rule asks for the time that the process would see if it woke now.
    if (this.#suspendedAt !== undefined) this.#askedMs += 1
    return this.#read()
  }

  #monotonic(): number {
    return (this.#suspendedAt ?? this.#kernel.now) + this.#askedMs - this.#suspendedMs
  }

  wallNow(): number {
    return 1_700_000_000_000 + this.#kernel.now
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    this.timers += 1
    let isOver = false
    const end = (): boolean => {
      const wasOver = isOver
      isOver = true
      if (!wasOver) this.timers -= 1
      this.#pending.delete(pending)
      return !wasOver
    }
    const fire = () => {
      if (end()) callback()
    }
    const pending = { ...this.#arm(delayMs, fire), fire }
    this.#pending.add(pending)
    return {
      cancel: () => {
        pending.task.run = undefined
        end()
      },
    }
  }

  #arm(delayMs: number, fire: () => void): Pick<Pending, 'dueAt' | 'task'> {
    const task = this.#kernel.after(delayMs, () => {
      if (this.isPaused) this.#lateTimers.push(fire)
      else this.run(fire)
    })
    return { dueAt: task.at, task }
  }

  /** Input arrives from outside. */
  receive(input: () => void): void {
    if (this.isPaused) this.#lateInput.push(input)
    else this.run(input)
  }

  /** A step of this process, with all promises that settle in it. */
  run(work: () => void): void {
    if (this.isDead) return
    current = this
    work()
  }

  /**
   * A rule reads something of this process. A read may start work, for example the end of a lease
   * that is noticed by it. That work belongs to this process, even if no step of it runs now.
   */
  read<T>(look: () => T): T {
    const running = current
    current = this
    try {
      return look()
    } finally {
      current = running ?? this
    }
  }

  pause(): void {
    this.isPaused = true
  }

  /** Pauses the process until `resume`. */
  suspend(): void {
    this.isPaused = true
    this.#suspendedAt = this.#kernel.now
  }

  /** Each delayed callback is a step of its own. */
  resume(): void {
    this.isPaused = false
    if (this.#suspendedAt !== undefined) {
      this.#rearm(this.#suspendedAt)
      // Waking up takes a little time.
      this.#askedMs += 1
      this.#suspendedMs += this.#kernel.now - this.#suspendedAt
    }
    this.#suspendedAt = undefined
    const late = [...this.#lateTimers, ...this.#lateInput]
    this.#lateTimers = []
    this.#lateInput = []
    for (const each of late) this.#kernel.after(0, () => this.receive(each))
  }

  #rearm(suspendedAt: number): void {
    this.#lateTimers = []
    for (const pending of this.#pending) {
      pending.task.run = undefined
      Object.assign(pending, this.#arm(pending.dueAt - suspendedAt, pending.fire))
    }
  }

  kill(): void {
    this.isDead = true
    this.#lateTimers = []
    this.#lateInput = []
  }
}

/** The step is over, and all its promises have settled, except for work deferred to this moment. */
export function leave(): void {
  while (ticks.length > 0) {
    for (const tick of ticks.splice(0)) tick()
    drain()
  }
  current = undefined
}

class Handle {
  readonly timer: Timer
  constructor(timer: Timer) {
    this.timer = timer
  }
  unref(): this {
    return this
  }
}

/** Runs `work` with global timers replaced by those of the process whose step runs. */
export function withSimulatedTimers<T>(work: () => T): T {
  const real = { ...timersOf(globalThis) }
  const { nextTick } = process
  Object.assign(globalThis, simulated(real))
  process.nextTick = (callback: Callback, ...args: never[]) => {
    if (current === undefined) nextTick(callback, ...args)
    else ticks.push(() => callback(...args))
  }
  try {
    return work()
  } finally {
    Object.assign(globalThis, real)
    process.nextTick = nextTick
    ticks.length = 0
    leave()
  }
}

type Callback = (...args: never[]) => void

type Timers = Pick<
  typeof globalThis,
  'setTimeout' | 'setInterval' | 'setImmediate' | 'clearTimeout' | 'clearInterval'
>

function timersOf(from: Timers): Timers {
  const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval } = from
  return { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval }
}

function simulated(real: Timers): object {
  const start = (callback: () => void, ms: number, repeats: boolean): Handle | undefined => {
    const owner = current
    if (owner === undefined) return undefined
    const again = (): Timer =>
      owner.setTimer(ms, () => {
        callback()
        if (repeats && !stopped) inner = again()
      })
    let stopped = false
    let inner = again()
    const cancel = () => {
      stopped = true
      inner.cancel()
    }
    return new Handle({ cancel })
  }
  const clear = (known: (handle: never) => void) => (handle: unknown) => {
    if (handle instanceof Handle) handle.timer.cancel()
    else known(handle as never)
  }
  return {
    setTimeout: (callback: Callback, ms = 0, ...args: never[]) =>
      start(() => callback(...args), ms, false) ?? real.setTimeout(callback, ms, ...args),
    setInterval: (callback: Callback, ms = 0, ...args: never[]) =>
      start(() => callback(...args), ms, true) ?? real.setInterval(callback, ms, ...args),
    setImmediate: (callback: Callback, ...args: never[]) =>
      start(() => callback(...args), 0, false) ?? real.setImmediate(callback, ...args),
    clearTimeout: clear(real.clearTimeout),
    clearInterval: clear(real.clearInterval),
  }
}
