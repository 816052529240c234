// The rule about ends: a holder knows that its lease is over before the server may grant it to
// another process. The holder of a lock or a job uses its own clock. A renewal that was refused or
// not received gives no holder more time.

import { handedOver } from './lock-rules.ts'
import type { Seen } from './sim-redis.ts'
import type { Judge } from './violation.ts'

/** One process that relies on a lease. */
export interface Reliance {
  readonly process: string
  readonly what: string
  readonly fence: string
  isOver(): boolean
}

interface Context {
  readonly now: () => number
  readonly after: (delayMs: number, run: () => void) => void
  readonly isAwake: (process: string) => boolean
}

/** Times of the server are whole milliseconds. */
const ROUNDING_MS = 1

export class LeaseEndRules {
  readonly #judge: Judge
  readonly #context: Context
  /** By fence: the moment until which the server has promised the lease. */
  readonly #ends = new Map<string, number>()
  readonly #relied = new Set<Reliance>()

  constructor(judge: Judge, context: Context) {
    this.#judge = judge
    this.#context = context
  }

  saw({ command: { name, args }, reply, published }: Seen): void {
    if (name === 'begin-record') {
      const [status, , fence] = reply as unknown[]
      if (status === 'BEGUN') this.#begins(String(fence), Number(args[3]))
    } else if (name === 'renew' && reply === 'RENEWED') {
      this.#endsIn(args[1] ?? '', Number(args[2]))
    } else if (name === 'acquire-lock') {
      const [status, , fence, forMs] = reply as unknown[]
      // A repeated acquire gets the rest of its lease, which is longer if the clock was set back.
      if (status === 'GRANTED')
        this.#endsIn(String(fence), Math.min(Number(forMs), Number(args[1])))
    } else if (name === 'release-lock') {
      const [, , fence, forMs] = reply as unknown[]
      if (fence !== '') this.#begins(String(fence), Number(forMs))
      for (const given of handedOver(published)) this.#begins(given.fence, given.forMs)
    }
  }

  relies(reliance: Reliance): void {
    this.#relied.add(reliance)
    this.#watch(reliance.fence)
  }

  relents(process: string, fence: string): void {
    for (const each of this.#relied) {
      if (each.process === process && each.fence === fence) this.#relied.delete(each)
    }
  }

  died(process: string): void {
    for (const each of this.#relied) if (each.process === process) this.#relied.delete(each)
  }

  /** Fences may be granted again. */
  forgetFences(): void {
    this.#ends.clear()
    this.#relied.clear()
  }

  /** Checks holders that were paused when their lease ended, and are awake now. */
  sweep(): void {
    for (const each of this.#relied) this.#check(each)
  }

  /** A repeated request gets the rest of its lease, so the first end counts. */
  #begins(fence: string, forMs: number): void {
    if (!this.#ends.has(fence)) this.#endsIn(fence, forMs)
  }

  #endsIn(fence: string, ms: number): void {
    this.#ends.set(fence, this.#context.now() + ms)
    this.#watch(fence)
  }

  #watch(fence: string): void {
    const relied = [...this.#relied].filter((each) => each.fence === fence)
    const end = this.#ends.get(fence)
    if (end === undefined) return
    const inMs = end - this.#context.now() + 2 * ROUNDING_MS
    for (const each of relied) this.#context.after(inMs, () => this.#check(each))
  }

  #check(reliance: Reliance): void {
    const { process, what, fence, isOver } = reliance
    // Unknown: granted before fences were forgotten.
    const overMs = this.#context.now() - (this.#ends.get(fence) ?? Number.POSITIVE_INFINITY)
    if (overMs < ROUNDING_MS || !this.#relied.has(reliance)) return
    if (!this.#context.isAwake(process) || isOver()) return
    const detail = `${process} still uses ${what} with fence ${fence}, ${overMs.toFixed(1)} ms after its lease`
    this.#judge.fail('over in time', detail, what)
  }
}
