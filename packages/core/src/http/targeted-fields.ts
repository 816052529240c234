// Targeted cache fields of a response (RFC 9213), which replace Cache-Control and Expires for this
// cache. Those two are then for the other caches on the way.
// https://www.rfc-editor.org/rfc/rfc9213.html#section-2

import type { HeaderList } from '../ports/exchange.ts'
import { type CacheControl, LARGEST_SECONDS, parseCacheControl } from './cache-control.ts'
import { headerValues } from './headers.ts'
import { type Member, parseDictionary } from './structured-fields.ts'

export interface Directives {
  readonly cc: CacheControl
  /** Said by a targeted field: then Expires says nothing either. */
  readonly targeted: boolean
}

/**
 * RFC 9213 §2.2: the first of `targets` (lower-case) that is valid and not empty, else Cache-Control.
 * https://www.rfc-editor.org/rfc/rfc9213.html#section-2.2
 */
export function responseDirectives(headers: HeaderList, targets: readonly string[]): Directives {
  for (const name of targets) {
    const lines = headerValues(headers, name)
    const members = lines.length === 0 ? undefined : parseDictionary(lines)
    if (members !== undefined && members.size > 0)
      return { cc: toCacheControl(members), targeted: true }
  }
  return { cc: parseCacheControl(headerValues(headers, 'cache-control')), targeted: false }
}

function toCacheControl(members: ReadonlyMap<string, Member>): CacheControl {
  const says = (name: string): boolean => isMeant(members.get(name))
  const seconds = (name: string): number | undefined => secondsOf(members.get(name))
  return {
    present: true,
    noStore: says('no-store'),
    noCache: says('no-cache'),
    private: says('private'),
    public: says('public'),
    mustRevalidate: says('must-revalidate'),
    proxyRevalidate: says('proxy-revalidate'),
    mustUnderstand: says('must-understand'),
    noTransform: says('no-transform'),
    immutable: says('immutable'),
    maxAgeS: seconds('max-age'),
    sMaxageS: seconds('s-maxage'),
    staleWhileRevalidateS: seconds('stale-while-revalidate'),
    staleIfErrorS: seconds('stale-if-error'),
  }
}

/** With any value but false: a qualified `private` counts as unqualified, and a value of a wrong type forbids too. */
function isMeant(member: Member | undefined): boolean {
  return member !== undefined && !(member.type === 'boolean' && !member.value)
}

/**
 * RFC 9213 §2.1: a value of a wrong type is not made into another. What is left is a lifetime that cannot be read, which
 * has passed (RFC 9111 §4.2.1). https://www.rfc-editor.org/rfc/rfc9213.html#section-2.1
 */
function secondsOf(member: Member | undefined): number | undefined {
  if (member === undefined) return undefined
  if (member.type !== 'integer') return 0
  return Math.min(Math.max(member.value, 0), LARGEST_SECONDS)
}
