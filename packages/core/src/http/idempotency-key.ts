// The Idempotency-Key request field as a Structured Field String, and the bare form that most
// clients send. A value that can be understood in two ways is refused, since two readers of one key
// would guard two records. Time is linear in the field. Specified in
// draft-ietf-httpapi-idempotency-key-header-07 §2.1.

import { trimOws } from './headers.ts'

export type KeyField =
  | { readonly type: 'key'; readonly key: string }
  | { readonly type: 'missing' }
  /** `problem` is a sentence, and holds nothing of what was sent. */
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
  if (field === '') return invalid('The key is empty.')
  if (field.startsWith('"')) return parseQuoted(field)
  if (hasListComma(field)) return { type: 'duplicate' }
  if (strict) return invalid('The key must be a quoted string (RFC 9651, section 3.3.3).')
  if (!BARE.test(field)) {
    return invalid(
      'A key without quotes is visible ASCII without quote, comma, semicolon, backslash.',
    )
  }
  return keyOf(field)
}

/** RFC 9651 §4.2.3: a String and its parameters, which mean nothing here. `field` begins with a quote. */
function parseQuoted(field: string): KeyField {
  const end = skipString(field, 0)
  if (end === undefined) {
    if (hasListComma(field)) return { type: 'duplicate' }
    return invalid('The quoted key is not closed, or has a character or an escape it may not have.')
  }
  const rest = skipParameters(field, end)
  if (rest === field.length) return keyOf(field.slice(1, end - 1).replace(/\\(.)/g, '$1'))
  if (hasListComma(field)) return { type: 'duplicate' }
  return invalid('What follows the quoted key are no parameters (RFC 9651, section 3.1.2).')
}

function keyOf(key: string): KeyField {
  if (key.length > LONGEST_KEY) {
    return invalid(`The key is longer than ${LONGEST_KEY} characters.`)
  }
  // Empty or blank is a variable that was never set.
  if (trimOws(key) === '') return invalid('The key is empty.')
  return { type: 'key', key }
}

const invalid = (problem: string): KeyField => ({ type: 'invalid', problem })

/** RFC 9651 §4.2.5: where the string that begins at `start` ends; `undefined` if it is none. */
function skipString(text: string, start: number): number | undefined {
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at + 1
    if (code < 0x20 || code > 0x7e) return undefined
    if (code !== BACKSLASH) continue
    const escaped = text.charCodeAt(++at)
    if (escaped !== QUOTE && escaped !== BACKSLASH) return undefined
  }
  return undefined
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** RFC 9651 §4.2.3.2; the value may be left out. */
const PARAMETER = /; *[a-z*][a-z0-9_\-.*]*(=)?/y

/** RFC 9651 §4.2.3.2: where the parameters that begin at `start` end, or cannot be read any further. */
function skipParameters(text: string, start: number): number {
  let at = start
  for (;;) {
    PARAMETER.lastIndex = at
    const match = PARAMETER.exec(text)
    if (match === null) return at
    const next = at + match[0].length
    const end = match[1] === undefined ? next : skipBareItem(text, next)
    if (end === undefined) return at
    at = end
  }
}

/**
 * RFC 9651 §4.2.4 to §4.2.9, each by the character it begins with: decimal and integer, token, byte
 * sequence, boolean, date. What is too long for one leaves a rest that nothing can begin with.
 */
const BARE_ITEM =
  /-?(?:\d{1,12}\.\d{1,3}|\d{1,15})|[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*|:[A-Za-z0-9+/=]*:|\?[01]|@-?\d{1,15}/y

/** RFC 9651 §4.2.3.1: where the bare item that begins at `start` ends; `undefined` if it is none. */
function skipBareItem(text: string, start: number): number | undefined {
  if (text[start] === '"') return skipString(text, start)
  if (text[start] === '%') return skipDisplayString(text, start)
  BARE_ITEM.lastIndex = start
  return BARE_ITEM.test(text) ? BARE_ITEM.lastIndex : undefined
}

/** RFC 9651 §4.2.10: `%"`, ASCII with UTF-8 as lower-case percent escapes, `"`. */
function skipDisplayString(text: string, start: number): number | undefined {
  const close = text[start + 1] === '"' ? text.indexOf('"', start + 2) : -1
  if (close === -1) return undefined
  const content = text.slice(start + 2, close)
  if (/[^\x20-\x7e]|%(?![0-9a-f]{2})/.test(content)) return undefined
  try {
    decodeURIComponent(content)
  } catch {
    return undefined
  }
  return close + 1
}

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
