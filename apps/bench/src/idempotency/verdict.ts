// How a case ends, and the short words for what came back.
import type { Answer } from './request.ts'

export type Verdict =
  | { readonly kind: 'ok'; readonly detail?: string }
  | { readonly kind: 'wrong'; readonly fact: string }
  | { readonly kind: 'not supported'; readonly reason: string }

export const ok = (detail?: string): Verdict =>
  detail === undefined ? { kind: 'ok' } : { kind: 'ok', detail }

export const wrong = (fact: string): Verdict => ({ kind: 'wrong', fact })

export const notSupported = (reason: string): Verdict => ({ kind: 'not supported', reason })

/** Wrong for each fact that holds, or else ok. */
export function unless(facts: ReadonlyArray<readonly [boolean, string]>, detail?: string): Verdict {
  const held = facts.filter(([holds]) => holds).map(([, fact]) => fact)
  return held.length === 0 ? ok(detail) : wrong(held.join('; '))
}

export const inWords = (answer: Answer): string => answer.failure ?? String(answer.status)

/** Refused, or told to wait: the client knows that this request did nothing. */
export const isRefusal = ({ status }: Answer): boolean => status >= 400 && status < 500
