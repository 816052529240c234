// The Idempotency-Key request field: a quoted Structured Field String, or the bare form that most
// clients send. An ambiguous value is refused, because two parsers would get two keys and so two
// records. Parsing takes linear time. Specified in draft-ietf-httpapi-idempotency-key-header-07
// §2.1.

import { trimOws } from './headers.ts'
import { parseItem } from './structured-fields.ts'

export type KeyField =
  | { readonly type: 'key'; readonly key: string }
  | { readonly type: 'missing' }
  /** `problem` is a sentence without any part of the request. */
  | { readonly type: 'invalid'; readonly problem: string }
  | { readonly type: 'duplicate' }

/** Longest key after decoding, in characters. All of them are ASCII. */
const LONGEST_KEY = 255

/**
 * Visible ASCII except `"`, `,`, `;` and `\`, which have a meaning in the quoted form or in lists.
 * UUIDs, ULIDs, numbers, base64, URLs and most other Structured Field types are valid bare keys.
 */
const BARE = /^[!#-+\--:<-[\]-~]+$/

/**
 * Parses the field. `lines` has its lines as received. `"abc"` and `abc` are the same key, and
 * `strict` accepts only the quoted form. Two lines are a duplicate even if they are equal. A list
 * counts as two lines, because a proxy may join lines with a comma (RFC 9110 §5.3).
 */
export function parseIdempotencyKey(lines: readonly string[], strict: boolean): KeyField {
  const [line] = lines
  if (line === undefined) return { type: 'missing' }
  if (lines.length > 1) return { type: 'duplicate' }
  const field = trimOws(line)
  if (field === '') return EMPTY
  if (field.startsWith('"')) return parseQuoted(field)
  if (hasListComma(field)) return { type: 'duplicate' }
  if (strict) return invalid('The key must be a quoted string (RFC 9651, section 3.3.3).')
  if (!BARE.test(field)) {
    return invalid(
      'A key without quotes must be visible ASCII, without a quote, comma, semicolon or backslash.',
    )
  }
  return keyOf(field)
}

/** A String without escapes and parameters, as nearly all quoted keys are. */
const PLAIN_STRING = /^"[ !#-[\]-~]*"$/

/** RFC 9651 §4.2.3: a String. Its parameters are ignored. `field` begins with a quote. */
function parseQuoted(field: string): KeyField {
  if (PLAIN_STRING.test(field)) return keyOf(field.slice(1, -1))
  const item = parseItem(field)
  if (item?.type === 'string') return keyOf(item.value)
  if (hasListComma(field)) return { type: 'duplicate' }
  return invalid('The quoted key is not a valid string (RFC 9651, section 3.3.3).')
}

function keyOf(key: string): KeyField {
  if (key.length > LONGEST_KEY) {
    return invalid(`The key is longer than ${LONGEST_KEY} characters.`)
  }
  // An empty or blank key usually comes from a variable that the client did not set.
  if (trimOws(key) === '') return EMPTY
  return { type: 'key', key }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

const invalid = (problem: string): KeyField => ({ type: 'invalid', problem })
const EMPTY: KeyField = invalid('The key is empty. Send a new unique value for each new request.')

/** Whether the text has a comma outside of quotes. The result only selects the error. */
function hasListComma(text: string): boolean {
  let quoted = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) quoted = !quoted
    else if (quoted && code === BACKSLASH) at++
    else if (!quoted && code === 0x2c) return true
  }
  return false
}
