// The two parts of a key: its vary group, and the variant within the group. NUL separates them,
// because no header, URL or escaped key contains it. A purge of the vary group purges all its
// variants.

export const VARIANT_SEPARATOR = '\0'

/** The group of a key: the part that the key has in common with its variants. */
export function groupOf(key: string): string {
  const end = key.indexOf(VARIANT_SEPARATOR)
  return end === -1 ? key : key.slice(0, end)
}

export function isVariant(key: string): boolean {
  return key.includes(VARIANT_SEPARATOR)
}

/** Escapes a key of the user, so that it contains neither NUL nor a lone surrogate. */
export function escapeKey(text: string): string {
  return /[\0\p{Surrogate}]/u.test(text) ? `j${JSON.stringify(text)}` : `=${text}`
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

/** Key of a `getOrSet` value. The prefix keeps it apart from the key of a response. */
export function dataKey(key: string): string {
  return DATA_PREFIX + escapeKey(key)
}

export function isDataKey(key: string): boolean {
  return key.startsWith(DATA_PREFIX)
}
