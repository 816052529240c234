// The Idempotency-Key request field as a Structured Field String, and the bare form that most
// clients send. A value that can be understood in two ways is refused, since two readers of one key
// would guard two records. Time is linear in the field. Specified in
// draft-ietf-httpapi-idempotency-key-header-07 §2.1.

import { trimOws } from './headers.ts'
import { parseItem } from './structured-fields.ts'

export type KeyField =
  | { readonly type: 'key'; readonly key: string }
  | { readonly type: 'missing' }
  /** `problem` is a sentence and holds nothing of what was sent. */
  | { readonly type: 'invalid'; readonly problem: string }
  | { readonly type: 'duplicate' }

/** Characters, after decoding; all are ASCII. */
const LONGEST_KEY = 255

/**
 * Visible ASCII but `"`, `,`, `;` and `\`, which have a meaning in the quoted form or in lists. So every
 * UUID, ULID, number, base64, URL and most other Structured Field types are keys as they stand.
 */
const BARE = /^[!#-+\--:<-[\]-~]+$/

/**
 * `lines`: each line of the field, as received. `"abc"` and `abc` are the same key; `strict` takes only
 * the quoted form. Two lines are a duplicate even when they agree, also if a list is all that is left
 * of them (RFC 9110 §5.3 lets anybody on the way join lines with a comma).
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

/** RFC 9651 §4.2.3: a String and its parameters, which mean nothing here. `field` begins with a quote. */
function parseQuoted(field: string): KeyField {
  const item = parseItem(field)
  if (item?.type === 'string') return keyOf(item.value)
  if (hasListComma(field)) return { type: 'duplicate' }
  return invalid('The quoted key is not a valid string (RFC 9651, section 3.3.3).')
}

function keyOf(key: string): KeyField {
  if (key.length > LONGEST_KEY) {
    return invalid(`The key is longer than ${LONGEST_KEY} characters.`)
  }
  // Empty or blank is a variable that was never set.
  if (trimOws(key) === '') return EMPTY
  return { type: 'key', key }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

const invalid = (problem: string): KeyField => ({ type: 'invalid', problem })
const EMPTY: KeyField = invalid('The key is empty. Send a new unique value for each new request.')

/** Whether this was more than one value: a comma that no quotes protect. Only names the refusal. */
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
