// A strict parser of Dictionaries, Lists and Items of Structured Fields (RFC 9651). An invalid
// field counts as absent. Parameters and the items of inner lists are parsed and dropped, since no
// caller uses them. https://www.rfc-editor.org/rfc/rfc9651.html#section-4.2

/** A member of a List or Dictionary (RFC 9651 §3). The items of an inner list are dropped. */
export type Member =
  | { readonly type: 'integer' | 'decimal' | 'date'; readonly value: number }
  | { readonly type: 'string' | 'token' | 'bytes' | 'display-string'; readonly value: string }
  | { readonly type: 'boolean'; readonly value: boolean }
  | { readonly type: 'inner-list' }

/**
 * RFC 9651 §4.2.2: members by key. The last one of a repeated key counts. Empty for an empty field,
 * undefined for an invalid Dictionary. `lines` has one element per line of the field.
 * https://www.rfc-editor.org/rfc/rfc9651.html#section-4.2.2
 */
export function parseDictionary(lines: readonly string[]): ReadonlyMap<string, Member> | undefined {
  const members = new Map<string, Member>()
  const isWhole = parseMembers(lines, (input) => {
    const key = input.take(KEY)
    const member = key === undefined ? undefined : parseMember(input)
    if (key !== undefined && member !== undefined) members.set(key, member)
    return member !== undefined
  })
  return isWhole ? members : undefined
}

/**
 * RFC 9651 §4.2.1: the members, or undefined for an invalid List. `lines` has one element per line
 * of the field. https://www.rfc-editor.org/rfc/rfc9651.html#section-4.2.1
 */
export function parseList(lines: readonly string[]): readonly Member[] | undefined {
  const members: Member[] = []
  const isWhole = parseMembers(lines, (input) => {
    const member = parseValue(input)
    if (member !== undefined) members.push(member)
    return member !== undefined
  })
  return isWhole ? members : undefined
}

/**
 * RFC 9651 §4.2.3: an Item with its parameters. Undefined if other text than spaces follows them.
 * https://www.rfc-editor.org/rfc/rfc9651.html#section-4.2.3
 */
export function parseItem(text: string): Item | undefined {
  const input = new Input(text)
  input.take(/ +/y)
  const item = parseBareItem(input)
  if (item === undefined || !parseParameters(input)) return undefined
  input.take(/ +/y)
  return input.isEmpty ? item : undefined
}

/** Parses members separated by commas. False if a member or a separator is invalid. */
function parseMembers(lines: readonly string[], parseOne: (input: Input) => boolean): boolean {
  const input = new Input(lines.join(', '))
  input.take(/ +/y)
  while (!input.isEmpty) {
    if (!parseOne(input)) return false
    input.take(/[ \t]+/y)
    if (input.isEmpty) break
    if (input.take(/,[ \t]*/y) === undefined || input.isEmpty) return false
  }
  return true
}

const KEY = /[a-z*][a-z0-9_\-.*]*/y

/** The text to parse, with the position that the parser has reached. */
class Input {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  get isEmpty(): boolean {
    return this.#at >= this.#text.length
  }

  /**
   * Consumes the match of a sticky pattern at the position. Returns the first group of the pattern,
   * or the whole match if it has no group. Without a match, returns undefined and consumes nothing.
   */
  take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const match = pattern.exec(this.#text)
    if (match === null) return undefined
    this.#at = pattern.lastIndex
    return match[1] ?? match[0]
  }
}

/** Parses the value of a key. A key without a value is true. */
function parseMember(input: Input): Member | undefined {
  const plain = input.take(/=/y) === undefined
  if (plain) return parseParameters(input) ? { type: 'boolean', value: true } : undefined
  return parseValue(input)
}

/** Parses an item or an inner list, with its parameters. */
function parseValue(input: Input): Member | undefined {
  const member = input.take(/\( */y) === undefined ? parseBareItem(input) : parseInnerList(input)
  return member !== undefined && parseParameters(input) ? member : undefined
}

/** Parses the rest of an inner list. https://www.rfc-editor.org/rfc/rfc9651.html#section-4.2.1.2 */
function parseInnerList(input: Input): Member | undefined {
  while (input.take(/\)/y) === undefined) {
    if (parseBareItem(input) === undefined || !parseParameters(input)) return undefined
    if (input.take(/ +|(?=\))/y) === undefined) return undefined
  }
  return { type: 'inner-list' }
}

/**
 * Parses parameters. False if one is invalid.
 * https://www.rfc-editor.org/rfc/rfc9651.html#section-4.2.3.2
 */
function parseParameters(input: Input): boolean {
  while (input.take(/; */y) !== undefined) {
    if (input.take(KEY) === undefined) return false
    if (input.take(/=/y) !== undefined && parseBareItem(input) === undefined) return false
  }
  return true
}

/** An item without its parameters (RFC 9651 §3.3). */
export type Item = Exclude<Member, { type: 'inner-list' }>

const STRING = /"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"/y
const TOKEN = /[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*/y
/** Base64 in groups of four characters. The last group has its whole padding, or none. */
const BYTES = /:((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?):/y
const DATE = /@(-?\d{1,15})(?![\d.])/y
const DISPLAY_STRING = /%"((?:[\x20\x21\x23\x24\x26-\x7e]|%[0-9a-f]{2})*)"/y

/** Parses a bare item. https://www.rfc-editor.org/rfc/rfc9651.html#section-4.2.3.1 */
function parseBareItem(input: Input): Item | undefined {
  const number = input.take(/-?\d+(?:\.\d*)?/y)
  if (number !== undefined) return toNumber(number)
  const string = input.take(STRING)
  if (string !== undefined) return { type: 'string', value: string.replace(/\\(.)/g, '$1') }
  const token = input.take(TOKEN)
  if (token !== undefined) return { type: 'token', value: token }
  const boolean = input.take(/\?([01])/y)
  if (boolean !== undefined) return { type: 'boolean', value: boolean === '1' }
  const bytes = input.take(BYTES)
  if (bytes !== undefined) return { type: 'bytes', value: bytes }
  const date = input.take(DATE)
  if (date !== undefined) return { type: 'date', value: Number(date) }
  const encoded = input.take(DISPLAY_STRING)
  return encoded === undefined ? undefined : toDisplayString(encoded)
}

/**
 * An integer has at most 15 digits. A decimal has at most 12 before the point and 1 to 3 after it.
 */
function toNumber(text: string): Item | undefined {
  if (/^-?\d{1,15}$/.test(text)) return { type: 'integer', value: Number(text) }
  return /^-?\d{1,12}\.\d{1,3}$/.test(text) ? { type: 'decimal', value: Number(text) } : undefined
}

/** The percent-encoded bytes must be valid UTF-8. */
function toDisplayString(encoded: string): Item | undefined {
  try {
    return { type: 'display-string', value: decodeURIComponent(encoded) }
  } catch {
    return undefined
  }
}
