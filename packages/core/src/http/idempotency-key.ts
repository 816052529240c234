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

/** A String without escapes and parameters, as nearly all quoted keys are. */
const PLAIN_STRING = /^"[ !#-[\]-~]*"$/

/**
 * Parses the field. `lines` has its lines as received. `"abc"` and `abc` are the same key, and
 * `strict` accepts only the quoted form. Two lines are a duplicate even if they are equal. A list
 * counts as two lines, because a proxy may join lines with a comma (RFC 9110 §5.3).
 */
export function parseIdempotencyKey(lines: readonly string[], strict: boolean): KeyField {
  const [line] = lines
  if (line === undefined) return { type: 'missing' }
  if (lines.length > 1) return { type: 'duplicate' }
  let key = trimOws(line)
  if (key === '') return EMPTY
  if (PLAIN_STRING.test(key)) key = key.slice(1, -1)
  else if (key.startsWith('"')) {
    // RFC 9651 §4.2.3: a String. Its parameters are ignored.
    const item = parseItem(key)
    if (item?.type !== 'string') return hasListComma(key) ? { type: 'duplicate' } : NOT_STRING
    key = item.value
  } else if (hasListComma(key)) return { type: 'duplicate' }
  else if (strict) return NOT_QUOTED
  else if (!BARE.test(key)) return NOT_BARE
  if (key.length > LONGEST_KEY) return TOO_LONG
  // An empty or blank key usually comes from a variable that the client did not set.
  return trimOws(key) === '' ? EMPTY : { type: 'key', key }
}

const invalid = (problem: string): KeyField => ({ type: 'invalid', problem })
const EMPTY = invalid('The key is empty. Send a new unique value for each new request.')
const TOO_LONG = invalid(`The key is longer than ${LONGEST_KEY} characters.`)
const NOT_STRING = invalid('The quoted key is not a valid string (RFC 9651, section 3.3.3).')
const NOT_QUOTED = invalid('The key must be a quoted string (RFC 9651, section 3.3.3).')
const NOT_BARE = invalid(
  'A key without quotes must be visible ASCII, without a quote, comma, semicolon or backslash.',
)

/** Without its last quote, a string ends with the text. That keeps the time linear. */
const STRINGS = /"[^"\\]*(?:\\.[^"\\]*)*"?/g

/** Whether the text has a comma outside of quotes. The result only selects the error. */
function hasListComma(text: string): boolean {
  return text.replace(STRINGS, '').includes(',')
}
