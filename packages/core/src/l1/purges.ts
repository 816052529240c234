// The purges by subject that this process knows, and whether a copy may still be served. Subjects
// are tags, cache groups, paths, routes, caches and everything. A purge has a position, its number
// in the purge log. Each subject has the positions of its last hard and its last soft purge. A hard
// purge removes all entries of its subject that were filled earlier. A soft purge makes them stale.
// Each hit needs a verdict about its entry. A copy remembers the last verdict until `version`
// changes.

import { type HeldEntry, type Provenance, staleFrom } from '../entry/entry.ts'
import { matchesPattern } from '../http/route-pattern.ts'
import type { Clock } from '../ports/clock.ts'
import { CONFIRMED_FOR_MS, type Mark, type Position, type StampedeStore } from '../ports/store.ts'
import { ALL, isRoute, kindOf, pathSubject, type SubjectKind } from '../ports/subject.ts'
import type { L1, L1Copy } from './l1.ts'

/** The last purges of one subject. */
interface LastPurges {
  readonly subject: string
  /** Positions of the last hard and the last soft purge. 0: none. */
  hard: Position
  soft: Position
  /** Time of the last soft purge on the clock of this process. */
  softAt: number
}

/** A number means that the entry is stale since this time, on the clock of this process. */
export type Verdict = 'valid' | 'purged' | number

/**
 * Limit of the remembered subjects. Above the limit, the oldest purge is forgotten. Every entry
 * from before that purge then counts as purged, because it may have been purged.
 */
const MOST_SUBJECTS = 100_000
/**
 * The same limit for routes. It is lower, because a verdict compares each pattern with the path.
 */
const MOST_ROUTES = 1_000

export class PurgeMarks {
  /** By subject. The subject with the oldest purge comes first. */
  readonly #subjects = new Map<string, LastPurges>()
  readonly #routes = new Map<string, LastPurges>()
  /**
   * Subjects of each purge that this process has sent. Until the store has replied with their
   * positions, entries of these subjects count as purged.
   */
  readonly #pending = new Set<readonly string[]>()
  /** The oldest known position. */
  #oldestKnown: Position = 0
  /** Rises with each change that may change a verdict. */
  version = 0
  /** The highest known position. A fill that begins now is newer than all purges up to it. */
  newest: Position = 0

  /**
   * Adds a purge. `at` is its time on the clock of this process. Nothing changes if a purge of the
   * subject at this or a newer position is known.
   */
  add({ subject, soft, position }: Mark, at: number): void {
    this.newest = Math.max(this.newest, position)
    const map = isRoute(subject) ? this.#routes : this.#subjects
    const last = map.get(subject) ?? { subject, hard: 0, soft: 0, softAt: 0 }
    if (position <= (soft ? last.soft : last.hard)) return
    if (soft) Object.assign(last, { soft: position, softAt: at })
    else last.hard = position
    map.delete(subject)
    map.set(subject, last)
    this.version += 1
    this.#bound(map, map === this.#routes ? MOST_ROUTES : MOST_SUBJECTS)
  }

  /**
   * Call this before a purge is sent to the store. Call the returned function when the purge was
   * added here, or when it has failed.
   */
  expect(...subjects: readonly string[]): () => void {
    this.#pending.add(subjects)
    this.version += 1
    return () => void this.#pending.delete(subjects)
  }

  /** Sets the oldest known position. Entries from before it count as purged. */
  forgetBefore(position: Position): void {
    this.newest = Math.max(this.newest, position)
    if (position <= this.#oldestKnown) return
    this.#oldestKnown = position
    this.version += 1
  }

  /** Decides by the known purges whether an entry is valid, stale or purged. */
  judge(provenance: Provenance): Verdict {
    if (provenance.asOf >= this.newest && this.#pending.size === 0) return 'valid'
    if (provenance.asOf < this.#oldestKnown) return 'purged'
    if (this.#pending.size > 0) {
      const subjects = subjectsOf(provenance)
      for (const pending of this.#pending)
        if (subjects.some((each) => pending.includes(each))) return 'purged'
    }
    let staleFrom: number | undefined
    for (const last of this.#purgesOf(provenance)) {
      if (last.hard > provenance.asOf) return 'purged'
      if (last.soft > provenance.asOf) staleFrom = Math.min(staleFrom ?? last.softAt, last.softAt)
    }
    return staleFrom ?? 'valid'
  }

  /**
   * The purges that came after the fill of an entry and cover it, oldest first, for operators.
   * `isFromLostHistory`: the entry counts as purged, because purges of it may be unknown.
   */
  covering(provenance: Provenance): {
    readonly purges: ReadonlyArray<Omit<Mark, 'agoMs'> & { readonly by: SubjectKind }>
    readonly isFromLostHistory: boolean
  } {
    const purges = [...this.#purgesOf(provenance)]
      .flatMap(({ subject, hard, soft }) => {
        const by = kindOf(subject)
        return [
          { by, subject, soft: false, position: hard },
          { by, subject, soft: true, position: soft },
        ]
      })
      .filter(({ position }) => position > provenance.asOf)
      .sort((a, b) => a.position - b.position)
    return { purges, isFromLostHistory: provenance.asOf < this.#oldestKnown }
  }

  get size(): number {
    return this.#subjects.size + this.#routes.size
  }

  /**
   * The purges of all subjects of an entry. Routes without a purge after its fill are left out,
   * because they would only cost a comparison with the path.
   */
  *#purgesOf(provenance: Provenance): Generator<LastPurges> {
    const { path, asOf } = provenance
    for (const subject of subjectsOf(provenance)) {
      const last = this.#subjects.get(subject)
      if (last !== undefined) yield last
    }
    if (path === undefined) return
    for (const [subject, last] of this.#routes) {
      const isLater = last.hard > asOf || last.soft > asOf
      if (isLater && matchesPattern(subject.slice(1), path)) yield last
    }
  }

  #bound(map: Map<string, LastPurges>, most: number): void {
    for (const [subject, last] of map) {
      if (map.size <= most) return
      map.delete(subject)
      this.forgetBefore(Math.max(last.hard, last.soft))
    }
  }
}

/** The subjects that cover an entry, except routes. */
function subjectsOf({ subjects, path, host }: Provenance): readonly string[] {
  const named = [ALL, ...subjects]
  if (path !== undefined) named.push(pathSubject(path, undefined), pathSubject(path, host))
  return named
}

// Checks of copies before they are served

/** The parts of the runtime that these checks need. */
export interface Validity {
  readonly l1: L1
  readonly marks: PurgeMarks
  readonly store: Pick<StampedeStore, 'confirmedAt'>
  readonly clock: Pick<Clock, 'now'>
}

/**
 * Whether an entry whose fill began at `since` may be used now: `since` or the last confirmation by
 * the store is less than CONFIRMED_FOR_MS ago. So no copy is served for longer than that after a
 * purge, even if messages are lost.
 */
export function isConfirmed(rt: Validity, since: number, now: number = rt.clock.now()): boolean {
  return now < Math.max(since, rt.store.confirmedAt) + CONFIRMED_FOR_MS
}

/** The entry of a copy, stale if a soft purge made it so. Undefined if it may not be served. */
export function validCopy(
  rt: Validity,
  copy: L1Copy,
  now: number = rt.clock.now(),
): HeldEntry | undefined {
  if (!isConfirmed(rt, copy.begunAt, now)) return undefined
  if (copy.validAtVersion === rt.marks.version) return copy.held
  const held = afterPurges(rt, copy.held)
  if (held === undefined) return undefined
  copy.held = held
  copy.validAtVersion = rt.marks.version
  return held
}

/** The fresh entry in L1. Undefined if there is none. */
export function freshCopy(rt: Validity, key: string, now: number): HeldEntry | undefined {
  const copy = rt.l1.get(key)
  if (copy?.type !== 'copy') return undefined
  const held = validCopy(rt, copy, now)
  return held !== undefined && now < held.staleAt ? held : undefined
}

/**
 * An older entry to serve in place of a failure, stale if a soft purge made it so. Undefined if it
 * was purged, or if this process may have missed a purge.
 */
export function confirmedCopy(rt: Validity, held: HeldEntry): HeldEntry | undefined {
  return isConfirmed(rt, Number.NEGATIVE_INFINITY) ? afterPurges(rt, held) : undefined
}

/**
 * The older entry of a fill, if it was not purged since the lookup of the fill. `since` is the
 * number of L1's last purge before that lookup. L1 has the purges by key, and PurgeMarks those by
 * subject.
 */
export function stillValid(
  rt: Validity,
  key: string,
  since: number,
  previous: HeldEntry | undefined,
): HeldEntry | undefined {
  if (previous === undefined || rt.l1.wasPurgedSince(key, since)) return undefined
  return afterPurges(rt, previous)
}

/**
 * Applies the known purges of its subjects to an entry. Returns the entry unchanged, the entry as
 * stale, or undefined if it was purged.
 */
export function afterPurges(rt: Validity, held: HeldEntry): HeldEntry | undefined {
  const verdict = rt.marks.judge(held.entry.provenance)
  if (verdict === 'purged') return undefined
  return verdict === 'valid' ? held : staleFrom(held, verdict)
}
