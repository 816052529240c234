// Parses what the scripts of cache entries get and reply.

import type { Reply } from './keyspace.ts'

export interface CommitTerms {
  readonly fence: string
  readonly token: string
  readonly freshMs: number
  /** The longer of stale-while-revalidate and stale-if-error. */
  readonly staleMs: number
}

/** Lifetimes count from the commit. */
export function commitTerms([terms = '']: readonly string[]): CommitTerms {
  const [fence = '', , waitedMs, , freshMs, swrMs, sieMs, , token = ''] = terms.split(' ')
  return {
    fence,
    token,
    freshMs: Number(freshMs) - Number(waitedMs),
    staleMs: Math.max(Number(swrMs), Number(sieMs)),
  }
}

/** The values of a reply to a lookup: status, time, grant, for ms, fence, age ms, … */
export function lookupValues(reply: Reply | Error): string[] {
  return String(Array.isArray(reply) ? reply[0] : reply).split(' ')
}
