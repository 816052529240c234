// The rule about origin calls: one per lease in the whole fleet, and without a lease one per
// process at a time. A second call is allowed beside one that was purged or timed out. It is also
// allowed beside one that began before the last confirmed purges.

import { CONFIRMED_FOR_MS } from '@stampede/core/store'
import type { Judge } from './violation.ts'

export interface Run {
  readonly process: string
  readonly key: string
  readonly fence: string
  readonly startedAt: number
  /** Purged or timed out, so another call may run beside it. */
  isVoid: boolean
}

export class OriginRules {
  readonly #judge: Judge
  readonly #running = new Set<Run>()
  /** Leases that were used. */
  readonly #used = new Set<string>()
  /** Granted fences, with their keys, and those that may be granted again. */
  readonly #given = new Set<string>()
  readonly #doubtful = new Set<string>()
  /** By process: the key of a fill that was announced and is about to run the origin. */
  readonly #announced = new Map<string, string>()

  constructor(judge: Judge) {
    this.#judge = judge
  }

  get running(): number {
    return this.#running.size
  }

  given(key: string, fence: string): void {
    this.#given.add(`${key} ${fence}`)
  }

  /** Fences may be granted again, so the known ones are no longer checked. */
  forgetFences(): void {
    for (const lease of this.#given) this.#doubtful.add(lease)
  }

  /** A fill begins. A call that runs its own origin after waiting too long is not announced. */
  announce(process: string, key: string): void {
    this.#announced.set(process, key)
  }

  start(process: string, key: string, fence: string, now: number): Run | undefined {
    const isFill = this.#announced.get(process) === key
    this.#announced.delete(process)
    if (!isFill) return undefined
    const run: Run = { process, key, fence, startedAt: now, isVoid: false }
    if (fence !== '') this.#useLease(key, fence)
    else this.#checkAlone(run, now)
    this.#running.add(run)
    return run
  }

  end(run: Run): void {
    this.#running.delete(run)
  }

  /** `key` undefined: all keys. */
  purged(process: string, key: string | undefined): void {
    for (const run of this.#running) {
      if (run.process === process && (key === undefined || run.key === key)) run.isVoid = true
    }
  }

  died(process: string): void {
    for (const run of this.#running) if (run.process === process) this.#running.delete(run)
    this.#announced.delete(process)
  }

  #useLease(key: string, fence: string): void {
    const lease = `${key} ${fence}`
    if (this.#used.has(lease) && !this.#doubtful.has(lease)) {
      this.#judge.fail('one run a lease', `the origin ran twice under ${fence}`, key)
    }
    this.#used.add(lease)
  }

  #checkAlone({ process, key }: Run, now: number): void {
    for (const other of this.#running) {
      if (other.process !== process || other.key !== key || other.isVoid) continue
      if (now - other.startedAt >= CONFIRMED_FOR_MS) continue
      this.#judge.fail(
        'one run a process',
        `${process} ran the origin of ${key} twice at once`,
        key,
      )
    }
  }
}
