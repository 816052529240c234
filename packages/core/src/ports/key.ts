// Keys of the store: their two parts, their form for users, and the form of paths in purges. The
// parts are the vary group and the variant within the group. NUL separates them, because no header,
// URL or escaped key contains it. A purge of the vary group purges all its variants.

export const VARIANT_SEPARATOR = '\0'

/** The group of a key: the part that the key has in common with its variants. */
export function groupOf(key: string): string {
  const end = key.indexOf(VARIANT_SEPARATOR)
  return end === -1 ? key : key.slice(0, end)
}

export function isVariant(key: string): boolean {
  return key.includes(VARIANT_SEPARATOR)
}

/** A constant, because a literal in a function is a new object for each call. */
const UNSAFE = /[\0\p{Surrogate}]/u

/** Escapes a key of the user, so that it contains neither NUL nor a lone surrogate. */
export function escapeKey(text: string): string {
  return UNSAFE.test(text) ? `j${JSON.stringify(text)}` : `=${text}`
}

/**
 * Inverse of `escapeKey`. A key that `escapeKey` did not produce is returned unchanged, because a
 * key in a message of the server may be anything.
 */
export function unescapeKey(escaped: string): string {
  if (!escaped.startsWith('j')) return escaped.slice(1)
  try {
    const text: unknown = JSON.parse(escaped.slice(1))
    if (typeof text === 'string') return text
  } catch {
    // Not JSON: returned unchanged below.
  }
  return escaped
}

export const DATA_PREFIX = 'd:'

/** Prefix of the key of a `getOrSet` value that needed no escape. The key of the user follows. */
export const PLAIN_DATA_PREFIX = 'd:='

/** Key of a `getOrSet` value. The prefix keeps it apart from the key of a response. */
export function dataKey(key: string): string {
  return DATA_PREFIX + escapeKey(key)
}

export function isDataKey(key: string): boolean {
  return key.startsWith(DATA_PREFIX)
}

/**
 * The form in which purges compare paths: `/Products/42/` and `/products/%34%32` are equal, since a
 * purge of one path too many is harmless. An encoded slash does not separate parts. Never throws.
 */
export function canonicalPath(path: string): string {
  const plain = path.includes('%') ? path.split('/').map(decodedPart).join('/') : path
  const lower = plain.toLowerCase()
  return lower.length > 1 && lower.endsWith('/') ? lower.slice(0, -1) : lower
}

/** One part of a path. A part with an invalid percent-encoding stays as it is. */
function decodedPart(part: string): string {
  try {
    return decodeURIComponent(part).replaceAll('/', '%2f')
  } catch {
    return part
  }
}

// Internal keys and purge subjects in the form that users wrote, for events and errors. This is the
// inverse of cache/key.ts, ports/subject.ts and the functions above, as a test checks.

/**
 * Returns the key of `getOrSet`, the key that an option `key` returned, `GET` or `QUERY` with the
 * URL, or the target of a purge.
 */
export function shownKey(internalKey: string): string {
  const text = groupOf(internalKey)
  if (text.startsWith(DATA_PREFIX)) return unescapeKey(text.slice(DATA_PREFIX.length))
  const [, kind = '', rest = ''] = /^http:(GET|key) (.*)$/s.exec(text) ?? []
  const [first = '', host = '', path = '', query = ''] = fieldsIn(rest)
  if (kind === 'key') return unescapeKey(first)
  // A QUERY is a variant whose first part is the digest of its body.
  const method = internalKey[text.length + 1] === 'q' ? 'QUERY' : 'GET'
  const search = query === '' ? '' : `?${query}`
  if (kind === 'GET') return `${method} ${first}://${host}${path}${search}`
  return internalKey.replace(/^[ctgphm]=|^r(?=\/)/, '')
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
