// Tags in the fields of a response: Surrogate-Key and Cache-Tag, as CDNs have them, and
// Cache-Groups (RFC 9875). Names are compared as they are, letter by letter.

import type { HeaderList } from '../ports/exchange.ts'
import { headerValues, trimOws } from './headers.ts'
import { parseList } from './structured-fields.ts'

/** The names in `Surrogate-Key`, which are separated by spaces, and in `Cache-Tag`, which are separated by commas. */
export function responseTags(headers: HeaderList): readonly string[] {
  const keys = headerValues(headers, 'surrogate-key').flatMap((line) => line.split(/[ \t]/))
  const tags = headerValues(headers, 'cache-tag').flatMap((line) => line.split(',').map(trimOws))
  return [...new Set([...keys, ...tags])].filter((name) => name !== '')
}

/** RFC 9875 §2. https://www.rfc-editor.org/rfc/rfc9875.html#section-2 */
export function cacheGroups(headers: HeaderList): readonly string[] {
  return listOfStrings(headerValues(headers, 'cache-groups'))
}

/** RFC 9875 §3. https://www.rfc-editor.org/rfc/rfc9875.html#section-3 */
export function invalidatedGroups(headers: HeaderList): readonly string[] {
  return listOfStrings(headerValues(headers, 'cache-group-invalidation'))
}

/** A field that is no List of Strings is as if it were not there (RFC 9651 §4.2). */
function listOfStrings(lines: readonly string[]): readonly string[] {
  const members = lines.length === 0 ? [] : (parseList(lines) ?? [])
  const names = members.flatMap((member) => (member.type === 'string' ? [member.value] : []))
  return names.length === members.length ? [...new Set(names)] : []
}
