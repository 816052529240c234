// Encoding of getOrSet values as bytes, and decoding. Every caller gets a decoded value, even the
// caller whose factory ran. So a hit and a miss never differ. All callers of a JSON value share one
// frozen object. Bytes, and values of a serializer, are decoded again for each caller.

import { type StoredValue, UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import { readOnce, readValue } from '../entry/parsed-value.ts'
import { StampedeError, show, valueError } from '../errors.ts'

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
    return {
      type: 'value',
      encoding: 'bytes',
      body,
      provenance,
      parsed: undefined,
      copy: undefined,
    }
  }
  let json: string | undefined
  try {
    json = JSON.stringify(value)
  } catch (cause) {
    const problem = `the value cannot be written as JSON (${(cause as Error).message})`
    throw valueError(at.where, problem)
  }
  if (json === undefined) throw valueError(at.where, jsonProblem(value))
  // Outside of Node's buffer pool, because L1 would copy a buffer of the pool once more.
  const body = Buffer.allocUnsafeSlow(Buffer.byteLength(json))
  body.write(json)
  return { type: 'value', encoding: 'json', body, provenance, parsed: undefined, copy }
}

/** The problem with a value for which `JSON.stringify` returns undefined. */
function jsonProblem(value: unknown): string {
  const none = 'was returned, which JSON cannot represent'
  switch (typeof value) {
    case 'undefined':
      return `undefined ${none}; return null`
    case 'function':
      return `a function ${none}; call it, and return its result`
    case 'symbol':
      return `a symbol ${none}; return a string`
    default:
      return 'the toJSON() of the object returns a value that JSON cannot represent; return plain data'
  }
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
  // The copy is encoded, because a getter may return another value each time.
  const copy = frozenCopy(value)
  if (copy === undefined) checkPlainData(at.where, value)
  return copy === undefined ? encode(at, value) : encode(at, copy, copy)
}

/** Decodes a stored value. */
export function decodeData<T>(stored: StoredValue, serializer?: Serializer): T {
  if (serializer === undefined) return decodeValue(stored)
  return serializer.deserialize(Buffer.from(stored.body)) as T
}

/**
 * Decodes the value for the caller whose factory returned it. Other callers get the copy of this
 * entry that is in L1 or in the store. So parsed JSON is not remembered in this object.
 */
export function decodeOwn<T>(stored: StoredValue, serializer?: Serializer): T {
  if (stored.copy !== undefined) return stored.copy as T
  if (serializer === undefined && stored.encoding === 'json') return readOnce(stored) as T
  return decodeData(stored, serializer)
}

export function decodeValue<T>(stored: StoredValue): T {
  return (stored.encoding === 'bytes' ? Buffer.from(stored.body) : readValue(stored)) as T
}

// Copies of plain data, and the check for values that JSON would change silently: a Map becomes {},
// a method disappears. The error names the path of the member.

/** The copy stops at this depth. Deeper values and cycles get the check. */
const DEEPEST = 32

/**
 * A frozen copy of plain data: what `JSON.parse` would return for its JSON, at a quarter of the
 * cost. Undefined for any other value, which `checkPlainData` is for.
 */
export function frozenCopy(value: unknown, depth: number = DEEPEST): unknown {
  if (typeof value === 'string' || typeof value === 'boolean' || value === null) return value
  // As JSON has it: -0 becomes 0, and a number that is not finite becomes null.
  if (typeof value === 'number') return Number.isFinite(value) ? value + 0 : null
  if (typeof value !== 'object' || depth === 0 || !isPlain(value) || hasToJson(value))
    return undefined
  if (Array.isArray(value)) {
    // With its final length: an array that grows by `push` reserves room for 16 elements.
    const copy = new Array<unknown>(value.length)
    for (let i = 0; i < copy.length; i++) {
      const member: unknown = value[i]
      const own = member === undefined ? null : frozenCopy(member, depth - 1)
      if (own === undefined) return undefined
      copy[i] = own
    }
    return Object.freeze(copy)
  }
  const copy: Record<string, unknown> = {}
  // A list of all names would take a quarter of the memory of the copy.
  for (const name in value) {
    if (!Object.hasOwn(value, name)) continue
    const member: unknown = (value as Record<string, unknown>)[name]
    if (member === undefined) continue
    const own = name === '__proto__' ? undefined : frozenCopy(member, depth - 1)
    if (own === undefined) return undefined
    copy[name] = own
  }
  return Object.freeze(copy)
}

/**
 * Throws `ERR_STAMPEDE_VALUE`. Allows any object with `toJSON()`, and members that are undefined.
 */
export function checkPlainData(where: string, root: unknown): void {
  // The containers around the member that is visited, from the value itself, and their names.
  const containers: unknown[] = []
  const names: Array<string | number> = []
  const fail = (problem: string): never => {
    const path = names.map(stepOf).join('')
    throw valueError(where, path === '' ? problem : `value${path}: ${problem}`)
  }
  function visit(this: unknown, key: string): unknown {
    while (containers.length > 0 && containers.at(-1) !== this) {
      containers.pop()
      names.pop()
    }
    const isRoot = containers.length === 0
    const member: unknown = isRoot ? root : (this as Record<string, unknown>)[key]
    if (!isRoot) names.push(Array.isArray(this) ? Number(key) : key)
    if (containers.includes(member)) fail('JSON cannot represent a cycle; leave it out')
    const problem = isRoot || member !== undefined ? problemOf(member) : undefined
    if (problem !== undefined) fail(problem)
    if (isContainer(member)) {
      containers.push(member)
      return member
    }
    if (!isRoot) names.pop()
    return null
  }
  try {
    JSON.stringify(root, visit)
  } catch (error) {
    // Nested too deep for the call stack. The encoder fails for that reason too, and reports it.
    if (error instanceof StampedeError) throw error
  }
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !hasToJson(value)
}

function problemOf(value: unknown): string | undefined {
  switch (typeof value) {
    case 'undefined':
      return 'undefined was returned, which JSON cannot represent; return null'
    case 'function':
      return 'JSON cannot represent a function; call it, or leave it out'
    case 'symbol':
      return 'JSON cannot represent a symbol; use a string'
    case 'bigint':
      return hasToJson(value) ? undefined : 'JSON cannot represent a bigint; use a string'
    case 'object':
      return isContainer(value) && !isPlain(value) ? instanceProblem(value) : undefined
  }
  return undefined
}

/** Whether the value is an array or an object without a class. It may come from another realm. */
function isPlain(value: object): boolean {
  if (Array.isArray(value)) return true
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function instanceProblem(value: object): string {
  const name = value.constructor?.name || 'a class'
  if (value instanceof Map) return 'a Map would become {}; use Object.fromEntries(map)'
  if (value instanceof Set) return 'a Set would become {}; use [...set]'
  if (value instanceof Uint8Array)
    return 'bytes inside a value would become {}; use base64, or a serializer'
  return `an instance of ${name} would lose its class; use plain data, give it a toJSON(), or use a serializer`
}

function hasToJson(value: object | bigint): boolean {
  return typeof (value as { toJSON?: unknown }).toJSON === 'function'
}

/** One step of the path in an error, such as `value.list[3].name`. */
function stepOf(name: string | number): string {
  if (typeof name === 'number') return `[${name}]`
  const isPlainName = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name)
  return isPlainName ? `.${name}` : `[${JSON.stringify(name)}]`
}
