// JSON of one meaning in one spelling. Made of its tokens, because reading numbers as JavaScript does
// makes one amount of two: 9007199254740993 is 9007199254740992 after JSON.parse.
//
// No space. Members sorted by name, those of one name in their order, since readers differ in which they
// take. Strings as JSON.stringify writes them. Numbers as exact decimals without spare zeros, and zero
// without a sign: what a parser made of -0 is written as 0. Time is O(n log n); nesting takes no stack.

import { createHash } from 'node:crypto'
import { types } from 'node:util'

/** Deeper than anybody means to send, shallower than what recursive handlers fail on. */
const DEEPEST = 512

/** `undefined` when it is no JSON (RFC 8259, to the letter), or nested deeper than 512. */
export function canonicalJson(text: string): string | undefined {
  try {
    // Only whether it is JSON: what it reads is not looked at.
    JSON.parse(text)
  } catch {
    return undefined
  }
  return canonicalText(text)
}

/** The same for a text that is known to be JSON. */
export function canonicalText(json: string): string | undefined {
  return new Writer(json).write()
}

/** The same for what a parser made of it; `undefined` for what JSON has no form for. */
export function canonicalValue(value: unknown): string | undefined {
  try {
    const json = jsonOf(value)
    return json === undefined ? undefined : canonicalText(json)
  } catch {
    return undefined
  }
}

/** Deeper values take the long way, by way of their text. */
const SHALLOW = 64

/**
 * The canonical form of what JSON.parse makes, written straight from the value: a third of the time
 * that it takes by way of its text. `undefined` for any other value, which may still have one.
 */
export function canonicalPlain(value: unknown, depth = 0): string | undefined {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'number') return Number.isFinite(value) ? ofNumber(value) : undefined
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
  return names === undefined ? arrayOf(values) : objectOf(names.map(quoted), values)
}

const PLAIN_TEXT = /^[ !#-[\]-~]*$/

function quoted(text: string): string {
  return PLAIN_TEXT.test(text) ? `"${text}"` : JSON.stringify(text)
}

function ofNumber(value: number): string | undefined {
  if (Number.isSafeInteger(value) && value % 10 !== 0) return String(value)
  return canonicalText(String(value))
}

/**
 * JSON.stringify, with bytes as their hash. Throws what it throws (a RangeError when nested too deep),
 * and for objects that would all look alike.
 */
export function jsonOf(value: unknown): string | undefined {
  return JSON.stringify(value, visible)
}

function visible(this: unknown, key: string, value: unknown): unknown {
  // A Buffer's toJSON came first, and made an array of numbers of it.
  const own = (this as Record<string, unknown>)[key]
  if (types.isUint8Array(own)) {
    return { 'stampede:bytes': createHash('sha256').update(own).digest('base64url') }
  }
  if (showsNothing(value)) throw new TypeError('there is no JSON for this object')
  return value
}

/** A Promise, Map, Set or RegExp is `{}` for JSON: any two of them would be the same. */
function showsNothing(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  // `Object.prototype` of any realm: it is the end of the chain.
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return false
  return Object.keys(value).length === 0
}

/** An array or object whose end was not reached. */
interface Open {
  /** Of an object: the name of each member, in canonical form. */
  readonly names: string[] | undefined
  readonly values: string[]
}

/** Written by JSON.stringify as it stands. */
const PLAIN_STRING = /"[ !#-[\]-~]*"/y
const NUMBER = /(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?/y
const LITERAL = /[a-z]+/y

/** Of a text that is known to be JSON: so commas, colons and which bracket closes say nothing more. */
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
        this.#add(names === undefined ? arrayOf(values) : objectOf(names, values))
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

  /** RFC 8259 §7: every way to escape is written in one. */
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

// Both by `+=`, which does not copy: `join` would copy the innermost value once per level.

function arrayOf(values: readonly string[]): string {
  let text = '['
  for (const value of values) text += text === '[' ? value : `,${value}`
  return `${text}]`
}

function objectOf(names: readonly string[], values: readonly string[]): string {
  const order = [...names.keys()].sort((a, b) => compare(names[a] as string, names[b] as string))
  let text = '{'
  for (const index of order) text += `${text === '{' ? '' : ','}${names[index]}:${values[index]}`
  return `${text}}`
}

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b))

/** Exponents up to this many digits are reckoned with, exactly; no document shifts them by more. */
const EXPONENT_DIGITS = 15

/** RFC 8259 §6: sign, digits and exponent of the same number are the same, however it was written. */
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
    // Told apart by its text, and not reckoned: a power of a million digits costs what it weighs.
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
