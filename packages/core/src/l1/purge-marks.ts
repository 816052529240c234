// What was purged by tag, path or route, or altogether: for each subject the position of the last purge. What was made
// earlier is void (hard) or stale (soft). Asked on every hit, so an answer is remembered until something is purged.

import type { Made } from '../entry/entry.ts'
import { matchesPattern } from '../http/route-pattern.ts'
import type { Mark, Position } from '../ports/store.ts'
import { ALL, isRoute, pathSubject } from '../ports/subject.ts'

interface Kept {
  /** Position of the last hard and of the last soft purge; 0: none. */
  hard: Position
  soft: Position
  /** When the soft one was, on this process's clock. */
  softAt: number
}

/** `void`: as if it were not there. A number: stale since that moment of this process's clock. */
export type Verdict = 'valid' | 'void' | number

/** Subjects remembered. Of what was made before a purge that was forgotten nothing is known, so it is void. */
const MOST_SUBJECTS = 100_000
/** Each pattern is compared with each path; beyond this, as above. */
const MOST_ROUTES = 1_000

export class PurgeMarks {
  /** Oldest purge first. */
  readonly #subjects = new Map<string, Kept>()
  readonly #routes = new Map<string, Kept>()
  /** Subjects being purged from here, and how often: until the store says when, all that is about them counts as purged. */
  readonly #coming = new Map<string, number>()
  #floor: Position = 0
  /** Rises with everything that may change a verdict. */
  version = 0
  /** Of every purge heard of: what begins after that is newer than all before it, heard of or not. */
  newest: Position = 0

  /** `at`: when the purge was, on this process's clock. Repeated and late ones change nothing. */
  add({ subject, soft, position }: Mark, at: number): void {
    this.newest = Math.max(this.newest, position)
    const map = isRoute(subject) ? this.#routes : this.#subjects
    const kept = map.get(subject) ?? { hard: 0, soft: 0, softAt: 0 }
    if (position <= (soft ? kept.soft : kept.hard)) return
    if (soft) Object.assign(kept, { soft: position, softAt: at })
    else kept.hard = position
    map.delete(subject)
    map.set(subject, kept)
    this.version += 1
    this.#bound(map, map === this.#routes ? MOST_ROUTES : MOST_SUBJECTS)
  }

  /** A purge is on its way to the store. Returns what to call when it is known, or has failed. */
  expect(subject: string): () => void {
    this.#coming.set(subject, (this.#coming.get(subject) ?? 0) + 1)
    this.version += 1
    return () => {
      const left = (this.#coming.get(subject) ?? 1) - 1
      if (left === 0) this.#coming.delete(subject)
      else this.#coming.set(subject, left)
    }
  }

  /** Purges before this one are not known: whatever was made before is void. */
  forgetBefore(position: Position): void {
    this.newest = Math.max(this.newest, position)
    if (position <= this.#floor) return
    this.#floor = position
    this.version += 1
  }

  judge(made: Made): Verdict {
    if (made.asOf >= this.newest && this.#coming.size === 0) return 'valid'
    if (made.asOf < this.#floor) return 'void'
    if (this.#coming.size > 0 && made.subjects.some((each) => this.#coming.has(each))) return 'void'
    let staleSince: number | undefined
    for (const kept of this.#about(made)) {
      if (kept.hard > made.asOf) return 'void'
      if (kept.soft > made.asOf) staleSince = Math.min(staleSince ?? kept.softAt, kept.softAt)
    }
    return staleSince ?? 'valid'
  }

  get size(): number {
    return this.#subjects.size + this.#routes.size
  }

  /** All marks about an entry. Marks of routes from before its fill are left out: they cost a comparison each. */
  *#about({ subjects, path, host, asOf }: Made): Generator<Kept> {
    const named = [ALL, ...subjects]
    if (path !== undefined) named.push(pathSubject(path, undefined), pathSubject(path, host))
    for (const subject of named) {
      const kept = this.#subjects.get(subject)
      if (kept !== undefined) yield kept
    }
    if (path === undefined) return
    for (const [subject, kept] of this.#routes) {
      const isLater = kept.hard > asOf || kept.soft > asOf
      if (isLater && matchesPattern(subject.slice(1), path)) yield kept
    }
  }

  #bound(map: Map<string, Kept>, most: number): void {
    for (const [subject, kept] of map) {
      if (map.size <= most) return
      map.delete(subject)
      this.forgetBefore(Math.max(kept.hard, kept.soft))
    }
  }
}
