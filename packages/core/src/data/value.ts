// Values of getOrSet as bytes, and back. Everybody gets what JSON makes of the value, the first caller
// included, so that a hit and a miss never differ; parsed once for many and frozen, so that nobody can
// change what others see.

import { type Made, type StoredValue, UNKNOWN_ORIGIN } from '../entry/entry.ts'
import { readOnce, readValue } from '../entry/parsed-value.ts'
import { show, valueError } from '../errors.ts'
import { checkPlainData } from './plain-data.ts'

/** `Uint8Array`s are kept as bytes, everything else as JSON. Throws `ERR_STAMPEDE_VALUE`, naming `where`. */
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
    throw valueError(where, formless(value))
  }
  return { type: 'value', encoding: 'json', body: bytesOf(json), made, parsed: undefined }
}

/** In memory of its own: a part of Node's pool would be copied before it is kept. */
function bytesOf(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text))
  bytes.write(text)
  return bytes
}

/** What `JSON.stringify` makes nothing of. */
function formless(value: unknown): string {
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

/** Writes values as bytes and reads them back, in place of JSON. Each hit reads its own value: it is not frozen. */
export interface Serializer<T = unknown> {
  serialize(value: T): string | Uint8Array
  deserialize(bytes: Buffer): T
}

/** For `getOrSet`: what JSON would change without a word is refused. */
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

/** `read`: what reads JSON. */
export function decodeData<T>(
  stored: StoredValue,
  serializer?: Serializer,
  read: typeof readValue = readValue,
): T {
  if (serializer === undefined) return decodeValue(stored, read)
  return serializer.deserialize(Buffer.from(stored.body)) as T
}

/** For the caller that made it: nobody else reads this object. */
export function decodeOwn<T>(stored: StoredValue, serializer?: Serializer): T {
  return decodeData(stored, serializer, readOnce)
}

export function decodeValue<T>(stored: StoredValue, read: typeof readValue = readValue): T {
  if (stored.encoding === 'bytes') return Buffer.from(stored.body) as T
  return read(stored) as T
}
