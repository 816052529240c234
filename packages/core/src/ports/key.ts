// The two parts of a key: what it is about, and which of its variants. They are separated by NUL, which no
// header, URL or escaped text of a caller contains. Purging the first part purges every variant.

export const VARIANT_MARK = '\0'

export function groupOf(key: string): string {
  const end = key.indexOf(VARIANT_MARK)
  return end === -1 ? key : key.slice(0, end)
}

export function isVariant(key: string): boolean {
  return key.includes(VARIANT_MARK)
}

/** Makes a caller's own text safe to be the first part. */
export function escapeKey(text: string): string {
  return /[\0\p{Surrogate}]/u.test(text) ? `j${JSON.stringify(text)}` : `=${text}`
}

/** The text that escapeKey made safe. What it did not make is returned as it is: names come from the server, too. */
export function unescapeKey(escaped: string): string {
  if (!escaped.startsWith('j')) return escaped.slice(1)
  try {
    const text: unknown = JSON.parse(escaped.slice(1))
    if (typeof text === 'string') return text
  } catch {
    // Falls through.
  }
  return escaped
}

export const DATA_PREFIX = 'd:'

/** Data and responses never meet under one key. */
export function dataKey(key: string): string {
  return DATA_PREFIX + escapeKey(key)
}

export function isDataKey(key: string): boolean {
  return key.startsWith(DATA_PREFIX)
}
