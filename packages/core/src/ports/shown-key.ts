// Internal keys and purge subjects in the form that users wrote, for events and errors. This is the
// inverse of cache/key.ts, ports/key.ts and ports/subject.ts, as a test checks.

import { DATA_PREFIX, groupOf, unescapeKey } from './key.ts'

/**
 * Returns the key of `getOrSet`, the key that an option `key` returned, `GET` with the URL, or the
 * target of a purge.
 */
export function shownKey(internalKey: string): string {
  const text = groupOf(internalKey)
  if (text.startsWith(DATA_PREFIX)) return unescapeKey(text.slice(DATA_PREFIX.length))
  const [, kind = '', rest = ''] = /^http:(GET|key) (.*)$/s.exec(text) ?? []
  const [first = '', host = '', path = '', query = ''] = fieldsIn(rest)
  if (kind === 'key') return unescapeKey(first)
  if (kind === 'GET') return `GET ${first}://${host}${path}${query === '' ? '' : `?${query}`}`
  return internalKey.replace(/^[tgph]=|^r(?=\/)/, '')
}

/**
 * Splits a text such as `5:https4:host`, in which each field comes after its length and a colon.
 */
function fieldsIn(text: string): string[] {
  const fields: string[] = []
  for (let at = 0; at < text.length; ) {
    const mark = text.indexOf(':', at)
    if (mark === -1) break
    const end = mark + 1 + Number(text.slice(at, mark))
    fields.push(text.slice(mark + 1, end))
    // A malformed length must not cause an endless loop.
    if (!(end > at)) break
    at = end
  }
  return fields
}
