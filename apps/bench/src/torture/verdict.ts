// How a scenario ends, and the short words for what a caller got.

export interface Figure {
  readonly label: string
  /** The smaller, the better. */
  readonly value: number
  readonly unit: 'ms' | 'calls'
  /** It did not end while it was watched: `value` is how long that was. */
  readonly never?: boolean
}

export type Verdict =
  | { readonly kind: 'ok'; readonly seen: string; readonly figures: readonly Figure[] }
  | { readonly kind: 'fails'; readonly seen: string; readonly figures: readonly Figure[] }
  | { readonly kind: 'n/a'; readonly seen: string }

export const notAsked = (seen: string): Verdict => ({ kind: 'n/a', seen })

/** `ok` when everything that the criterion asks for holds. */
export function decide(
  asked: readonly boolean[],
  seen: string,
  figures: readonly Figure[] = [],
): Verdict {
  return { kind: asked.every(Boolean) ? 'ok' : 'fails', seen, figures }
}

/** An unhandled rejection ends a Node process, whatever else went well. */
export function withAccidents(verdict: Verdict, accidents: readonly string[]): Verdict {
  const [first] = accidents
  if (first === undefined) return verdict
  const figures = verdict.kind === 'n/a' ? [] : verdict.figures
  const seen = `${verdict.seen} ${accidents.length} × unhandled rejection, which ends a process: ${first}`
  return { kind: 'fails', seen, figures }
}

/** What one caller got, and after how long. */
export type Answer =
  | { readonly kind: 'value'; readonly value: unknown; readonly ms: number }
  | { readonly kind: 'error'; readonly message: string; readonly ms: number }
  | { readonly kind: 'none'; readonly ms: number }

export function inWords(answer: Answer): string {
  const ms = `${Math.round(answer.ms)} ms`
  switch (answer.kind) {
    case 'value':
      return `${shown(answer.value)} in ${ms}`
    case 'error':
      return `an error in ${ms} (${short(answer.message)})`
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

/** Each answer once, with how often it came: `3 × "new"`. */
export function tally(words: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
  return [...counts].map(([word, count]) => `${count} × ${word}`).join(', ')
}
