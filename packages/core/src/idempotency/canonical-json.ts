// Canonical JSON: one text for all JSON texts with the same meaning. It is built from tokens,
// because JSON.parse rounds numbers: 9007199254740993 becomes 9007199254740992.
//
// The canonical text has no spaces. Members are sorted by name. Repeated names stay in order, since
// parsers differ in which one they use. Strings are as JSON.stringify writes them. Numbers are
// exact decimals without extra zeros, and -0 is 0. The conversion takes O(n log n) time and uses no
// recursion.

import { createHash } from 'node:crypto'
import { types } from 'node:util'

/** Deepest nesting. Real requests stay below it, and recursive code in handlers can process it. */
const DEEPEST = 512

/** Canonical form of a text. Undefined if it is not valid JSON (RFC 8259) or nested too deep. */
export function canonicalJson(text: string): string | undefined {
  try {
    // This checks only whether the text is JSON. The parsed value is not used.
    JSON.parse(text)
  } catch {
    return undefined
  }
  return canonicalText(text)
}

/** Canonical form of a text that is known to be valid JSON. Undefined if it is nested too deep. */
export function canonicalText(json: string): string | undefined {
  return new Writer(json).write()
}

/** Canonical form of a value. Undefined if JSON cannot represent it. */
export function canonicalValue(value: unknown): string | undefined {
  try {
    const json = jsonOf(value)
    return json === undefined ? undefined : canonicalText(json)
  } catch {
    return undefined
  }
}

/** Deepest value that `canonicalPlain` converts, because it is recursive. */
const SHALLOW = 64

/**
 * Canonical form of a value that JSON.parse returned, without writing its JSON text first. That
 * takes a third of the time. Undefined for other values, which `canonicalValue` may still convert.
 */
export function canonicalPlain(value: unknown, depth = 0): string | undefined {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'number') return Number.isFinite(value) ? numberText(value) : undefined
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value !== 'object' || depth === SHALLOW || 'toJSON' in value) return undefined
  const prototype: unknown = Object.getPrototypeOf(value)
  const isArray = Array.isArray(value)
  if (prototype !== (isArray ? Array.prototype : Object.prototype)) return undefined
  const names = isArray ? undefined : Object.keys(value)
  const values: string[] = []
  for (const each of isArray ? value : Object.values(value)) {
    const text = canonicalPlain(each, depth + 1)
    if (text === undefined) return undefined
    values.push(text)
  }
  return names === undefined ? arrayText(values) : objectText(names.map(quoted), values)
}

const PLAIN_TEXT = /^[ !#-[\]-~]*$/

function quoted(text: string): string {
  return PLAIN_TEXT.test(text) ? `"${text}"` : JSON.stringify(text)
}

function numberText(value: number): string | undefined {
  if (Number.isSafeInteger(value) && value % 10 !== 0) return String(value)
  return canonicalText(String(value))
}

/**
 * JSON.stringify, but with the hash of bytes in place of the bytes. Throws the errors of
 * JSON.stringify (a RangeError for deep nesting). Also throws for an object with content that JSON
 * writes as `{}`.
 */
export function jsonOf(value: unknown): string | undefined {
  return JSON.stringify(value, replacer)
}

function replacer(this: unknown, key: string, value: unknown): unknown {
  // `value` of a Buffer is already an array of numbers, because its toJSON runs before the
  // replacer.
  const own = (this as Record<string, unknown>)[key]
  if (types.isUint8Array(own)) {
    return { 'stampede:bytes': createHash('sha256').update(own).digest('base64url') }
  }
  if (isEmptyInJson(value)) throw new TypeError('JSON cannot represent this object')
  return value
}

/** Whether JSON writes an object as `{}` although it has content: a Promise, Map, Set or RegExp. */
function isEmptyInJson(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  // The prototype of a plain object in each realm is the end of its prototype chain.
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return false
  return Object.keys(value).length === 0
}

/** An array or object whose end the writer has not reached. */
interface Open {
  /** The names of an object's members, in canonical form. Undefined for an array. */
  readonly names: string[] | undefined
  readonly values: string[]
}

/** A string without escapes, which is canonical already. */
const PLAIN_STRING = /"[ !#-[\]-~]*"/y
const NUMBER = /(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?/y
const LITERAL = /[a-z]+/y

/** Writer of canonical JSON. Its text is valid JSON, so it can skip commas and colons. */
class Writer {
  readonly #text: string
  readonly #open: Open[] = []
  #inner: Open = { names: undefined, values: [] }
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  write(): string | undefined {
    while (this.#at < this.#text.length) {
      const character = this.#text[this.#at] as string
      if (character === '"') this.#add(this.#string())
      else if (' \t\n\r,:'.includes(character)) this.#at++
      else if (character === '[' || character === '{') {
        if (this.#open.length === DEEPEST) return undefined
        this.#open.push(this.#inner)
        this.#inner = { names: character === '{' ? [] : undefined, values: [] }
        this.#at++
      } else if (character === ']' || character === '}') {
        const { names, values } = this.#inner
        this.#inner = this.#open.pop() as Open
        this.#add(names === undefined ? arrayText(values) : objectText(names, values))
        this.#at++
      } else this.#add(this.#number() ?? this.#match(LITERAL)?.[0] ?? '')
    }
    return this.#inner.values[0]
  }

  #add(token: string): void {
    const { names, values } = this.#inner
    if (names !== undefined && names.length === values.length) names.push(token)
    else values.push(token)
  }

  /** RFC 8259 §7: a string with one form for each escaped character. */
  #string(): string {
    const plain = this.#match(PLAIN_STRING)
    if (plain !== null) return plain[0]
    const start = this.#at++
    for (; this.#text[this.#at] !== '"'; this.#at++) if (this.#text[this.#at] === '\\') this.#at++
    this.#at++
    return JSON.stringify(JSON.parse(this.#text.slice(start, this.#at)))
  }

  #number(): string | undefined {
    const number = this.#match(NUMBER)
    if (number === null) return undefined
    const [, sign = '', whole = '', fraction = '', exponent = '0'] = number
    return decimal(sign, whole, fraction, exponent)
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at
    const match = pattern.exec(this.#text)
    if (match !== null) this.#at = pattern.lastIndex
    return match
  }
}

// Both functions use `+=`, which does not copy. `join` would copy an inner value once per level.

function arrayText(values: readonly string[]): string {
  let text = '['
  for (const value of values) text += text === '[' ? value : `,${value}`
  return `${text}]`
}

function objectText(names: readonly string[], values: readonly string[]): string {
  const order = [...names.keys()].sort((a, b) => compare(names[a] as string, names[b] as string))
  let text = '{'
  for (const index of order) text += `${text === '{' ? '' : ','}${names[index]}:${values[index]}`
  return `${text}}`
}

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b))

/** Exponents with more digits are not normalised. Up to this length, the arithmetic is exact. */
const EXPONENT_DIGITS = 15

/** RFC 8259 §6: one text for all spellings of a number. */
function decimal(sign: string, whole: string, fraction: string, exponent: string): string {
  const all = whole + fraction
  const start = skipZeros(all)
  if (start === all.length) return '0'
  let end = all.length
  while (all.charCodeAt(end - 1) === 0x30) end--
  const digits = sign + all.slice(start, end)
  const down = exponent.startsWith('-')
  const power = exponent.slice(Number(down || exponent.startsWith('+')))
  const size = power.slice(skipZeros(power))
  if (size.length > EXPONENT_DIGITS) {
    // The exponent is too long for exact arithmetic, so the digits stay as they are.
    return `${sign}${whole}.${fraction}E${down ? '-' : '+'}${size}`
  }
  const scale = (down ? -1 : 1) * Number(size) - fraction.length + (all.length - end)
  return scale === 0 ? digits : `${digits}e${scale}`
}

function skipZeros(digits: string): number {
  let at = 0
  while (digits.charCodeAt(at) === 0x30) at++
  return at
}
