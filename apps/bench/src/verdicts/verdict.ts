// The verdict of a case.

export type Verdict =
  | { readonly kind: 'ok'; readonly detail?: string }
  | { readonly kind: 'wrong'; readonly fact: string }
  | { readonly kind: 'not supported'; readonly reason: string }

export const ok = (detail?: string): Verdict =>
  detail === undefined ? { kind: 'ok' } : { kind: 'ok', detail }

export const wrong = (fact: string): Verdict => ({ kind: 'wrong', fact })

export const notSupported = (reason: string): Verdict => ({ kind: 'not supported', reason })

/** Wrong if any fact holds, with all facts that hold. Else ok. */
export function unless(facts: ReadonlyArray<readonly [boolean, string]>, detail?: string): Verdict {
  const held = facts.filter(([holds]) => holds).map(([, fact]) => fact)
  return held.length === 0 ? ok(detail) : wrong(held.join('; '))
}
