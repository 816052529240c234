// Encoding of getOrSet values as bytes, and decoding. Every caller gets a decoded value, even the
// caller whose factory ran. So a hit and a miss never differ. All callers of a JSON value share one
// frozen object. Bytes, and values of a serializer, are decoded again for each caller.

import { type StoredValue, UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import { freezeAll, readValue } from '../entry/parsed-value.ts'
import { messageOf, show, valueError } from '../errors.ts'

/**
 * Encodes a `Uint8Array` as bytes, and any other value as JSON. Throws `ERR_STAMPEDE_VALUE`, with
 * `where` in its message.
 */
export function encodeValue(where: string, value: unknown): StoredValue {
  return encode({ where }, value)
}

/** The call that has a value. Its name is built only for an error. */
interface Place {
  readonly where: string
}

function encode(at: Place, value: unknown, copy?: unknown): StoredValue {
  const provenance = UNKNOWN_PROVENANCE
  if (value instanceof Uint8Array) {
    const body = Uint8Array.prototype.slice.call(value)
    return { type: 'value', encoding: 'bytes', body, provenance, parsed: undefined, copy }
  }
  let json: string | undefined
  try {
    json = JSON.stringify(value)
  } catch (cause) {
    throw valueError(at.where, unwritable(cause))
  }
  if (json === undefined) throw valueError(at.where, jsonProblem(value))
  // Outside of Node's buffer pool, because L1 would copy a buffer of the pool once more.
  const body = Buffer.allocUnsafeSlow(Buffer.byteLength(json))
  body.write(json)
  return { type: 'value', encoding: 'json', body, provenance, parsed: undefined, copy }
}

function unwritable(cause: unknown): string {
  return `the value cannot be written as JSON (${messageOf(cause)})`
}

/** The problem with a value for which `JSON.stringify` returns undefined. */
function jsonProblem(value: unknown): string {
  if (typeof value !== 'object') return problemOf(value)
  return 'the toJSON() of the object returns a value that JSON cannot represent; return plain data'
}

/** Encodes values in place of JSON. Each hit gets a value of its own, which is not frozen. */
export interface Serializer<T = unknown> {
  /** Encodes a value. The store keeps the bytes, or the UTF-8 bytes of the string. */
  serialize(value: T): string | Uint8Array
  /** Decodes a stored value. If it throws, the entry counts as a miss. */
  deserialize(bytes: Buffer): T
}

/**
 * Encodes a value of `getOrSet`. Without a serializer, throws `ERR_STAMPEDE_VALUE` for a value that
 * JSON would change.
 */
export function encodeData(at: Place, value: unknown, serializer?: Serializer): StoredValue {
  if (serializer !== undefined) {
    const written: unknown = serializer.serialize(value)
    if (written instanceof Uint8Array) return encode(at, written)
    if (typeof written === 'string') return encode(at, Buffer.from(written))
    const problem = `serializer.serialize() returned ${show(written)}; return a string or bytes`
    throw valueError(at.where, problem)
  }
  if (value instanceof Uint8Array) return encode(at, value)
  let copy: unknown
  try {
    copy = frozenCopy(value)
  } catch (error) {
    // Nested too deep for the call stack. The encoder fails for that reason too, and reports it.
    if (!(error instanceof RangeError)) throw error
  }
  if (copy instanceof Refusal) throw valueError(at.where, copy.text)
  // The copy is encoded, because a getter may return another value each time.
  return encode(at, copy ?? value, copy)
}

/** Decodes a value: a stored one, or that of the caller whose factory returned it. */
export function decodeData<T>(stored: StoredValue, serializer?: Serializer): T {
  if (stored.copy !== undefined) return stored.copy as T
  if (serializer === undefined) return decodeValue(stored)
  return serializer.deserialize(Buffer.from(stored.body)) as T
}

export function decodeValue<T>(stored: StoredValue): T {
  return (stored.encoding === 'bytes' ? Buffer.from(stored.body) : readValue(stored)) as T
}

// Copies of plain data. They refuse a value that JSON would change silently: a Map becomes {}, a
// method disappears. The error names the path of the member.

/** Why a value has no copy. */
export class Refusal {
  readonly #problem: string
  /** Path of the member, such as `.list[3].name`. */
  #path = ''

  constructor(problem: string) {
    this.#problem = problem
  }

  /** Adds the name of the member in the container around it. */
  in(name: string | number): this {
    this.#path = stepOf(name) + this.#path
    return this
  }

  get text(): string {
    return this.#path === '' ? this.#problem : `value${this.#path}: ${this.#problem}`
  }
}

/**
 * A frozen copy of a value: what `JSON.parse` would return for its JSON, at a quarter of the cost
 * for plain data. Undefined if its `toJSON()` returns nothing. A `Refusal` if JSON would change it.
 * `around`: the containers of the value.
 */
export function frozenCopy(
  value: unknown,
  name: string | number = '',
  around: object[] = [],
): unknown {
  if (typeof value === 'string' || typeof value === 'boolean' || value === null) return value
  // As JSON has it: -0 becomes 0, and a number that is not finite becomes null.
  if (typeof value === 'number') return Number.isFinite(value) ? value + 0 : null
  if (hasToJson(value)) {
    // JSON calls toJSON() with the name of the member.
    let json: string
    try {
      json = JSON.stringify({ [name]: value })
    } catch (cause) {
      if (cause instanceof RangeError) throw cause
      return new Refusal(unwritable(cause))
    }
    return freezeAll(Object.values(JSON.parse(json) as object)[0])
  }
  if (typeof value !== 'object' || !isPlain(value) || around.includes(value))
    return new Refusal(problemOf(value))
  around.push(value)
  let copy: unknown[] | Record<string, unknown>
  if (Array.isArray(value)) {
    // With its final length: an array that grows by `push` reserves room for 16 elements.
    copy = new Array<unknown>(value.length)
    for (let i = 0; i < copy.length; i++) {
      const member: unknown = value[i]
      const own = member === undefined ? null : frozenCopy(member, i, around)
      if (own instanceof Refusal) return own.in(i)
      copy[i] = own ?? null
    }
  } else {
    copy = {}
    // A list of all names would take a quarter of the memory of the copy.
    for (const key in value) {
      if (!Object.hasOwn(value, key)) continue
      const member: unknown = (value as Record<string, unknown>)[key]
      const own = member === undefined ? undefined : frozenCopy(member, key, around)
      if (own instanceof Refusal) return own.in(key)
      if (own === undefined) continue
      // An assignment to `__proto__` would set the prototype.
      if (key === '__proto__') Object.defineProperty(copy, key, { value: own, enumerable: true })
      else copy[key] = own
    }
  }
  around.pop()
  return Object.freeze(copy)
}

/** The problem with a value that is no object, by its type. */
const PROBLEMS: Readonly<Record<string, string>> = {
  undefined: 'undefined was returned, which JSON cannot represent; return null',
  function: 'JSON cannot represent a function; call it, or leave it out',
  symbol: 'JSON cannot represent a symbol; use a string',
  bigint: 'JSON cannot represent a bigint; use a string',
}

/** Why JSON would change a value that has no `toJSON()`. */
function problemOf(value: unknown): string {
  return PROBLEMS[typeof value] ?? instanceProblem(value as object)
}

/** Whether the value is an array or an object without a class. It may come from another realm. */
function isPlain(value: object): boolean {
  if (Array.isArray(value)) return true
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function instanceProblem(value: object): string {
  if (isPlain(value)) return 'JSON cannot represent a cycle; leave it out'
  const name = value.constructor?.name || 'a class'
  if (value instanceof Map) return 'a Map would become {}; use Object.fromEntries(map)'
  if (value instanceof Set) return 'a Set would become {}; use [...set]'
  if (value instanceof Uint8Array)
    return 'bytes inside a value would become {}; use base64, or a serializer'
  return `an instance of ${name} would lose its class; use plain data, give it a toJSON(), or use a serializer`
}

function hasToJson(value: unknown): boolean {
  if (typeof value !== 'object' && typeof value !== 'bigint') return false
  return typeof (value as { toJSON?: unknown }).toJSON === 'function'
}

/** One step of the path in an error, such as `value.list[3].name`. */
function stepOf(name: string | number): string {
  if (typeof name === 'number') return `[${name}]`
  const isPlainName = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name)
  return isPlainName ? `.${name}` : `[${JSON.stringify(name)}]`
}
