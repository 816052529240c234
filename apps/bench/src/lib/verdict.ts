// The verdict of a case, and short texts about what happened in it.

export interface Figure {
  readonly label: string
  /** Smaller is better. */
  readonly value: number
  readonly unit: 'ms' | 'calls'
  /** True: it did not happen in the time given by `value`. */
  readonly never?: boolean
}

export interface Verdict {
  readonly kind: 'ok' | 'fails' | 'not tested'
  /** The facts, or the reason why the case was not tested. */
  readonly seen: string
  readonly figures?: readonly Figure[]
}

export const ok = (seen = ''): Verdict => ({ kind: 'ok', seen })
export const wrong = (seen: string): Verdict => ({ kind: 'fails', seen })
export const notTested = (seen: string): Verdict => ({ kind: 'not tested', seen })

/** Returns `ok` if all parts of the criterion hold. */
export const decide = (
  criteria: readonly boolean[],
  seen: string,
  figures: readonly Figure[] = [],
): Verdict => ({ kind: criteria.every(Boolean) ? 'ok' : 'fails', seen, figures })

/** Fails if any fact holds, with all facts that hold. */
export function unless(facts: ReadonlyArray<readonly [boolean, string]>, seen = ''): Verdict {
  const held = facts.filter(([holds]) => holds).map(([, fact]) => fact)
  return held.length === 0 ? ok(seen) : wrong(held.join('; '))
}

export const counted = (count: number, name: string): string =>
  `${count} ${name}${count === 1 ? '' : 's'}`

/** Each text once, with its count: `3 × "new"`. */
export function tally(words: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
  return [...counts].map(([word, count]) => `${count} × ${word}`).join(', ')
}

export function short(text: string): string {
  const [line = ''] = text.split('\n')
  return line.length > 90 ? `${line.slice(0, 90)}…` : line
}
