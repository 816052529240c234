// Targeted cache fields of a response (RFC 9213). They replace Cache-Control and Expires for this
// cache. Other caches, between the client and this one, still use Cache-Control and Expires.
// https://www.rfc-editor.org/rfc/rfc9213.html#section-2

import type { HeaderList } from '../ports/exchange.ts'
import {
  type CacheControl,
  FLAGS,
  LARGEST_SECONDS,
  noDirectives,
  parseCacheControl,
  SECONDS,
} from './cache-control.ts'
import { headerValues } from './headers.ts'
import { type Member, parseDictionary } from './structured-fields.ts'

export interface Directives {
  readonly cc: CacheControl
  /** Whether the directives are from a targeted field. Then Expires is ignored too. */
  readonly targeted: boolean
}

/**
 * RFC 9213 §2.2: directives of the first field in `targets` that is valid and not empty, else of
 * Cache-Control. Names in `targets` are lower-case.
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
  const read = noDirectives(true)
  for (const [name, flag] of FLAGS) read[flag] = isOn(members.get(name))
  for (const [name, seconds] of SECONDS) read[seconds] = secondsOf(members.get(name))
  return read
}

/**
 * Whether a directive is on. Each value except false turns it on, also a value of a wrong type. So
 * `private="x-id"` counts as `private` without a field name, which forbids more.
 */
function isOn(member: Member | undefined): boolean {
  return member !== undefined && !(member.type === 'boolean' && !member.value)
}

/**
 * The value of a directive in seconds. A value of a wrong type is not converted (RFC 9213 §2.1). It
 * is an invalid lifetime, which counts as expired (RFC 9111 §4.2.1).
 * https://www.rfc-editor.org/rfc/rfc9213.html#section-2.1
 */
function secondsOf(member: Member | undefined): number | undefined {
  if (member === undefined) return undefined
  if (member.type !== 'integer') return 0
  return Math.min(Math.max(member.value, 0), LARGEST_SECONDS)
}
