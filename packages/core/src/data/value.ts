// Encoding of getOrSet values as bytes, and decoding. Every caller gets a decoded value, even the
// caller whose factory ran. So a hit and a miss never differ. All callers of a JSON value share one
// frozen object. Bytes, and values of a serializer, are decoded again for each caller.

import { type StoredValue, UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import { type ParsedValue, parsedAs, readOnce, readValue } from '../entry/parsed-value.ts'
import { show, valueError } from '../errors.ts'
import { checkPlainData, frozenCopy } from './plain-data.ts'

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

function encode(at: Place, value: unknown, parsed?: ParsedValue): StoredValue {
  const provenance = UNKNOWN_PROVENANCE
  if (value instanceof Uint8Array) {
    const body = Uint8Array.prototype.slice.call(value)
    return { type: 'value', encoding: 'bytes', body, provenance, parsed: undefined }
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
  return { type: 'value', encoding: 'json', body, provenance, parsed }
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
  return copy === undefined ? encode(at, value) : encode(at, copy, parsedAs(copy))
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
  if (serializer === undefined && stored.encoding === 'json') return readOnce(stored) as T
  return decodeData(stored, serializer)
}

export function decodeValue<T>(stored: StoredValue): T {
  return (stored.encoding === 'bytes' ? Buffer.from(stored.body) : readValue(stored)) as T
}
