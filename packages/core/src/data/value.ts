// Encoding of getOrSet values as bytes, and decoding. Every caller gets a decoded value, even the
// caller whose factory ran. So a hit and a miss never differ. All callers of a JSON value share one
// frozen object. Bytes, and values of a serializer, are decoded again for each caller.

import { type Provenance, type StoredValue, UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import { parsedAs, readOnce, readValue } from '../entry/parsed-value.ts'
import { show, valueError } from '../errors.ts'
import { checkPlainData, frozenCopy } from './plain-data.ts'

/**
 * Encodes a `Uint8Array` as bytes, and any other value as JSON. Throws `ERR_STAMPEDE_VALUE`, with
 * `where` in its message.
 */
export function encodeValue(
  where: string,
  value: unknown,
  provenance: Provenance = UNKNOWN_PROVENANCE,
): StoredValue {
  if (value instanceof Uint8Array) {
    const body = Uint8Array.prototype.slice.call(value)
    return { type: 'value', encoding: 'bytes', body, provenance }
  }
  let json: string | undefined
  try {
    json = JSON.stringify(value)
  } catch (cause) {
    throw valueError(where, `the value cannot be written as JSON (${(cause as Error).message})`)
  }
  if (json === undefined) {
    throw valueError(where, jsonProblem(value))
  }
  return { type: 'value', encoding: 'json', body: bytesOf(json), provenance, parsed: undefined }
}

/** Allocates outside Node's buffer pool, because L1 would copy a buffer of the pool once more. */
function bytesOf(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text))
  bytes.write(text)
  return bytes
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
export function encodeData(where: string, value: unknown, serializer?: Serializer): StoredValue {
  if (serializer !== undefined) {
    const written: unknown = serializer.serialize(value)
    if (written instanceof Uint8Array) return encodeValue(where, written)
    if (typeof written === 'string') return encodeValue(where, Buffer.from(written))
    throw valueError(
      where,
      `serializer.serialize() returned ${show(written)}; return a string or bytes`,
    )
  }
  if (value instanceof Uint8Array) return encodeValue(where, value)
  // The copy is encoded, because a getter may return another value each time.
  const copy = frozenCopy(value)
  if (copy === undefined) checkPlainData(where, value)
  const stored = encodeValue(where, copy ?? value)
  if (copy !== undefined && stored.encoding === 'json') stored.parsed = parsedAs(copy)
  return stored
}

/** Decodes a stored value. `parse` is the function that parses JSON. */
export function decodeData<T>(
  stored: StoredValue,
  serializer?: Serializer,
  parse: typeof readValue = readValue,
): T {
  if (serializer === undefined) return decodeValue(stored, parse)
  return serializer.deserialize(Buffer.from(stored.body)) as T
}

/**
 * Decodes the value for the caller whose factory returned it. Other callers get the copy of this
 * entry that is in L1 or in the store. So parsed JSON is not remembered in this object.
 */
export function decodeOwn<T>(stored: StoredValue, serializer?: Serializer): T {
  return decodeData(stored, serializer, readOnce)
}

export function decodeValue<T>(stored: StoredValue, parse: typeof readValue = readValue): T {
  if (stored.encoding === 'bytes') return Buffer.from(stored.body) as T
  return parse(stored) as T
}
