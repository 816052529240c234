// Values of getOrSet as bytes, and back. All callers get the value after JSON, also the first one,
// so that a hit and a miss never differ. The value is parsed once for many callers, and frozen, so
// that no caller can change it for the others.

import { type Made, type StoredValue, UNKNOWN_ORIGIN } from '../entry/entry.ts'
import { readOnce, readValue } from '../entry/parsed-value.ts'
import { show, valueError } from '../errors.ts'
import { checkPlainData } from './plain-data.ts'

/**
 * Encodes a `Uint8Array` as bytes, and any other value as JSON. Throws `ERR_STAMPEDE_VALUE` with
 * the call `where` in its message.
 */
export function encodeValue(
  where: string,
  value: unknown,
  made: Made = UNKNOWN_ORIGIN,
): StoredValue {
  if (value instanceof Uint8Array) {
    const body = Uint8Array.prototype.slice.call(value)
    return { type: 'value', encoding: 'bytes', body, made }
  }
  let json: string | undefined
  try {
    json = JSON.stringify(value)
  } catch (cause) {
    throw valueError(where, `the value cannot be written as JSON (${(cause as Error).message})`)
  }
  if (json === undefined) {
    throw valueError(where, problemOf(value))
  }
  return { type: 'value', encoding: 'json', body: bytesOf(json), made, parsed: undefined }
}

/** The bytes in a buffer that is not part of Node's pool. L1 would copy such a part. */
function bytesOf(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text))
  bytes.write(text)
  return bytes
}

/** The problem with a value for which `JSON.stringify` returns `undefined`. */
function problemOf(value: unknown): string {
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

/**
 * Encodes and decodes values in place of JSON. Each hit decodes a value of its own, which is not
 * frozen.
 */
export interface Serializer<T = unknown> {
  serialize(value: T): string | Uint8Array
  deserialize(bytes: Buffer): T
}

/** Encodes a value of `getOrSet`. Refuses values that JSON would change silently. */
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
  if (!(value instanceof Uint8Array)) checkPlainData(where, value)
  return encodeValue(where, value)
}

/** Decodes a stored value. `read` parses JSON. */
export function decodeData<T>(
  stored: StoredValue,
  serializer?: Serializer,
  read: typeof readValue = readValue,
): T {
  if (serializer === undefined) return decodeValue(stored, read)
  return serializer.deserialize(Buffer.from(stored.body)) as T
}

/** Decodes a value for the caller that made it. The object is not shared with other callers. */
export function decodeOwn<T>(stored: StoredValue, serializer?: Serializer): T {
  return decodeData(stored, serializer, readOnce)
}

export function decodeValue<T>(stored: StoredValue, read: typeof readValue = readValue): T {
  if (stored.encoding === 'bytes') return Buffer.from(stored.body) as T
  return read(stored) as T
}
