// The rules about purges and about age. A request later than the bound after a hard purge gets no
// entry from before it. The bound is 0 in the process that purged, and five seconds elsewhere. Soft
// purges are not checked, because stale entries may be served. No request gets an entry that is
// older than its lifetimes allow.

import { CONFIRMED_FOR_MS } from '@stampede/core/store'
import type { Figures } from './figures.ts'
import type { Judge } from './violation.ts'

/** A process counts the lifetime of its own copy from the reply to its commit. */
const ON_ITS_WAY_MS = 5_000

/** After this time, a process that purged has received the earlier purges. */
const HEARD_MS = 100

export interface Purge {
  readonly process: string
  readonly calledAt: number
  /** The versions before the purge, by key. */
  readonly versions: ReadonlyMap<string, number>
  readonly what: string
}

interface Done extends Purge {
  readonly doneAt: number
}

export class FreshnessRules {
  /** The current version of each key at the origin. */
  readonly versions = new Map<string, number>()
  /** How long each version may be used. */
  readonly #until = new Map<string, number>()
  readonly #judge: Judge
  readonly #figures: Figures
  #done: Done[] = []
  /** Purges lost in a fail-over that the processes which made them still know. */
  #lost: Done[] = []
  /** Purges called before this moment may have been lost while they were under way. */
  #lossAt = Number.NEGATIVE_INFINITY

  constructor(judge: Judge, figures: Figures) {
    this.#judge = judge
    this.#figures = figures
  }

  /** The version may be used for this long from now on. */
  lives(key: string, version: number, forMs: number, now: number): void {
    const name = `${key} ${version}`
    this.#until.set(name, Math.max(now + forMs, this.#until.get(name) ?? 0))
  }

  inTime(process: string, key: string, askedAt: number, version: number): void {
    const overMs = askedAt - (this.#until.get(`${key} ${version}`) ?? askedAt)
    if (overMs <= ON_ITS_WAY_MS) return
    const detail = `${process} was given version ${version} of ${key}, ${overMs.toFixed(0)} ms after it was over`
    this.#judge.fail('not too old', detail, key)
  }

  version(key: string): number {
    return this.versions.get(key) ?? 1
  }

  /** Changes the data before the purge, as the documentation says. */
  change(keys: readonly string[]): Map<string, number> {
    const before = new Map(keys.map((key) => [key, this.version(key)]))
    for (const [key, version] of before) this.versions.set(key, version + 1)
    return before
  }

  purged(purge: Purge, doneAt: number): void {
    if (purge.calledAt <= this.#lossAt) this.#figures.lostPurges += 1
    else this.#done.push({ ...purge, doneAt })
  }

  /**
   * A fail-over lost all commands after `snapshotAt`. The rule does not apply to lost purges
   * (docs/decisions/0007).
   */
  lost(snapshotAt: number, now: number): void {
    const kept = this.#done.filter(({ doneAt }) => doneAt <= snapshotAt)
    this.#figures.lostPurges += this.#done.length - kept.length
    this.#lost.push(
      ...this.#done.filter(({ doneAt }) => doneAt > snapshotAt && now - doneAt > HEARD_MS),
    )
    this.#done = kept
    this.#lossAt = now
  }

  /**
   * Lost purges apply again once a process that knows them has told the server, as `hasTold` says.
   */
  restore(hasTold: (process: string) => boolean, now: number): void {
    const restored = this.#lost.filter(({ process }) => hasTold(process))
    if (restored.length === 0) return
    this.#lost = this.#lost.filter((each) => !restored.includes(each))
    this.#done.push(...restored.map((purge) => ({ ...purge, doneAt: now })))
    this.#figures.restoredPurges += restored.length
  }

  /** The knowledge of a dead process is unknown. */
  died(process: string): void {
    this.#lost = this.#lost.filter((each) => each.process !== process)
  }

  /** The clock was set back, so positions of a lost history may be used again. */
  forgetLost(): void {
    this.#lost = []
  }

  answered(process: string, key: string, askedAt: number, version: number): void {
    for (const purge of this.#done) {
      if (askedAt <= purge.doneAt || version > (purge.versions.get(key) ?? 0)) continue
      const lateMs = askedAt - purge.doneAt
      const isOwn = process === purge.process
      if (!isOwn) {
        this.#figures.worstStalenessMs = Math.max(this.#figures.worstStalenessMs, lateMs)
      }
      if (!isOwn && lateMs < CONFIRMED_FOR_MS) continue
      const by = isOwn ? 'its own purge' : `a purge by ${purge.process}`
      const detail = `${process} was given version ${version} of ${key}, asked for ${lateMs.toFixed(1)} ms after ${by} (${purge.what})`
      this.#judge.fail('five seconds', detail, key)
    }
  }
}
