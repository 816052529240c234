// The rule about purges: whoever asks later than the bound after a purge gets nothing that was there before it. In the process
// that purged the bound is 0, everywhere else it is five seconds. Hard purges only: a soft one lets stale answers be. And the rule about
// time: nobody gets what is older than its lifetimes allow.

import { CONFIRMED_FOR_MS } from '@stampede/core/store'
import type { Figures } from './figures.ts'
import type { Judge } from './violation.ts'

/** What its process keeps of its own is counted from when it has the reply to its commit. */
const ON_ITS_WAY_MS = 5_000

/** A process that purged has by then heard what came before it. */
const HEARD_MS = 100

export interface Purge {
  readonly process: string
  readonly calledAt: number
  /** By key: what was there before it. */
  readonly versions: ReadonlyMap<string, number>
  readonly what: string
}

interface Done extends Purge {
  readonly doneAt: number
}

export class FreshnessRules {
  /** What the origin would say now of each key. */
  readonly versions = new Map<string, number>()
  /** How long each version may be used. */
  readonly #until = new Map<string, number>()
  readonly #judge: Judge
  readonly #figures: Figures
  #done: Done[] = []
  /** Lost with the data of a fail-over, and known to the process that made them. */
  #lost: Done[] = []
  /** Purges that were called before this may have been lost while they were under way. */
  #lossAt = Number.NEGATIVE_INFINITY

  constructor(judge: Judge, figures: Figures) {
    this.#judge = judge
    this.#figures = figures
  }

  /** It may be used for so long from now on. */
  lives(key: string, version: number, forMs: number, now: number): void {
    const name = `${key} ${version}`
    this.#until.set(name, Math.max(now + forMs, this.#until.get(name) ?? 0))
  }

  inTime(process: string, key: string, askedAt: number, version: number): void {
    const overMs = askedAt - (this.#until.get(`${key} ${version}`) ?? askedAt)
    if (overMs <= ON_ITS_WAY_MS) return
    const detail = `${process} got version ${version} of ${key}, ${overMs.toFixed(0)} ms after its lifetime`
    this.#judge.fail('not too old', detail, key)
  }

  version(key: string): number {
    return this.versions.get(key) ?? 1
  }

  /** The data first, then the purge: as everybody is told to. */
  change(keys: readonly string[]): Map<string, number> {
    const before = new Map(keys.map((key) => [key, this.version(key)]))
    for (const [key, version] of before) this.versions.set(key, version + 1)
    return before
  }

  purged(purge: Purge, doneAt: number): void {
    if (purge.calledAt <= this.#lossAt) this.#figures.lostPurges += 1
    else this.#done.push({ ...purge, doneAt })
  }

  /** A fail-over lost what was done later than `snapshotAt`: the purges that nobody can be held to (docs/decisions/0007). */
  lost(snapshotAt: number, now: number): void {
    const kept = this.#done.filter(({ doneAt }) => doneAt <= snapshotAt)
    this.#figures.lostPurges += this.#done.length - kept.length
    this.#lost.push(
      ...this.#done.filter(({ doneAt }) => doneAt > snapshotAt && now - doneAt > HEARD_MS),
    )
    this.#done = kept
    this.#lossAt = now
  }

  /** They hold again once a process that knows of them has told the server, which `hasTold` says. */
  restore(hasTold: (process: string) => boolean, now: number): void {
    const restored = this.#lost.filter(({ process }) => hasTold(process))
    if (restored.length === 0) return
    this.#lost = this.#lost.filter((each) => !restored.includes(each))
    this.#done.push(...restored.map((purge) => ({ ...purge, doneAt: now })))
    this.#figures.restoredPurges += restored.length
  }

  /** Of a process that died nobody knows what it knew. */
  died(process: string): void {
    this.#lost = this.#lost.filter((each) => each.process !== process)
  }

  /** The clock was set back, and a history that is lost may be given again. */
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
      const detail = `${process} got version ${version} of ${key}, ${lateMs.toFixed(1)} ms after ${by} (${purge.what})`
      this.#judge.fail('five seconds', detail, key)
    }
  }
}
