// Purge tags in response fields: Surrogate-Key and Cache-Tag, as CDNs use them, and Cache-Groups
// (RFC 9875). Names are case-sensitive.

import type { HeaderList } from '../ports/exchange.ts'
import { headerValues, trimOws } from './headers.ts'
import { parseList } from './structured-fields.ts'

/** The tags in `Surrogate-Key` (separated by spaces) and in `Cache-Tag` (separated by commas). */
export function responseTags(headers: HeaderList): readonly string[] {
  const tags = new Set<string>()
  for (const [name, value] of headers) {
    if (name === 'surrogate-key') for (const tag of value.split(/[ \t]/)) tags.add(tag)
    if (name === 'cache-tag') for (const tag of value.split(',')) tags.add(trimOws(tag))
  }
  tags.delete('')
  return [...tags]
}

/**
 * Cache groups of a response (RFC 9875 §2), or those to purge (§3). A field that is not a List of
 * Strings is ignored (RFC 9651 §4.2). https://www.rfc-editor.org/rfc/rfc9875.html#section-2
 */
export function cacheGroups(
  headers: HeaderList,
  field: 'cache-groups' | 'cache-group-invalidation' = 'cache-groups',
): readonly string[] {
  const lines = headerValues(headers, field)
  const members = lines.length === 0 ? [] : (parseList(lines) ?? [])
  const names = members.flatMap((member) => (member.type === 'string' ? [member.value] : []))
  return names.length === members.length ? [...new Set(names)] : []
}
