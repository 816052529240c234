// Verdict of a scenario, and short texts for the results of callers.

export interface Figure {
  readonly label: string
  /** Smaller is better. */
  readonly value: number
  readonly unit: 'ms' | 'calls'
  /** True: it did not happen in the time given by `value`. */
  readonly never?: boolean
}

export type Verdict =
  | { readonly kind: 'ok'; readonly seen: string; readonly figures: readonly Figure[] }
  | { readonly kind: 'fails'; readonly seen: string; readonly figures: readonly Figure[] }
  | { readonly kind: 'n/a'; readonly seen: string }

export const notTested = (seen: string): Verdict => ({ kind: 'n/a', seen })

/** Returns `ok` if all parts of the criterion hold. */
export function decide(
  criteria: readonly boolean[],
  seen: string,
  figures: readonly Figure[] = [],
): Verdict {
  return { kind: criteria.every(Boolean) ? 'ok' : 'fails', seen, figures }
}

/** An unhandled rejection ends a Node process, so the row fails. */
export function withRejections(verdict: Verdict, rejections: readonly string[]): Verdict {
  const [first] = rejections
  if (first === undefined) return verdict
  const figures = verdict.kind === 'n/a' ? [] : verdict.figures
  const seen = `${verdict.seen} ${rejections.length} × unhandled rejection, which ends a process: ${first}`
  return { kind: 'fails', seen, figures }
}

/** The result of one caller, and its time. */
export type Result =
  | { readonly kind: 'value'; readonly value: unknown; readonly ms: number }
  | { readonly kind: 'error'; readonly message: string; readonly ms: number }
  | { readonly kind: 'none'; readonly ms: number }

export function inWords(result: Result): string {
  const ms = `${Math.round(result.ms)} ms`
  switch (result.kind) {
    case 'value':
      return `${shown(result.value)} in ${ms}`
    case 'error':
      return `an error in ${ms} (${short(result.message)})`
    case 'none':
      return `no result in ${ms}`
  }
}

export function shown(value: unknown): string {
  if (value instanceof Error) return `an Error object (${short(value.message)})`
  return typeof value === 'string' ? `"${value}"` : String(value)
}

export function short(text: string): string {
  const [line = ''] = text.split('\n')
  return line.length > 90 ? `${line.slice(0, 90)}…` : line
}

export const counted = (count: number, name: string): string =>
  `${count} ${name}${count === 1 ? '' : 's'}`

/** Each result once, with its count: `3 × "new"`. */
export function tally(words: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
  return [...counts].map(([word, count]) => `${count} × ${word}`).join(', ')
}
