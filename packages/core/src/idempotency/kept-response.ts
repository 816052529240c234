// The stored result of a completed attempt: which responses are stored, and the result as bytes.
// The first byte is the kind. After it comes a frame as in the cache. If the options have keys, the
// bytes are sealed. The store is not trusted, so decoding checks all parts and never throws.

import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import {
  ownBytes,
  PAIR_BYTES,
  type StoredValue,
  stringBytes,
  UNKNOWN_PROVENANCE,
} from '../entry/entry.ts'
import { decodeFrame, encodeFrame } from '../entry/frame.ts'
import { optionError } from '../errors.ts'
import { headerValue, NOT_STORED, ownHeaders, reusableHeaders, toHeaders } from '../http/headers.ts'
import type { BodyKind, CapturedHead, HeaderList } from '../ports/exchange.ts'

export type Kept =
  | KeptResponse
  /** The value that a job returned. */
  | { readonly type: 'value'; readonly stored: StoredValue }

export interface KeptResponse {
  readonly type: 'response'
  readonly status: number
  readonly headers: HeaderList
  /** Undefined: the handler completed, but its response was not stored, except `location`. */
  readonly body: Uint8Array | undefined
  readonly kind?: BodyKind | undefined
}

/**
 * Statuses with which the handler did no work: authentication, rate limits, incomplete requests.
 */
const UNDECIDED: ReadonlySet<number> = new Set([401, 403, 407, 408, 421, 425, 429])

/**
 * Whether a response is final. Otherwise the attempt is released, and the next request runs the
 * handler. A 304 is not final, because it refers to a copy that only the first client has.
 */
export function isFinal(status: number): boolean {
  return status >= 200 && status < 500 && status !== 304 && !UNDECIDED.has(status)
}

/**
 * Fields for one response and its path to the client, fields of CORS, which are for one origin, and
 * rate limits, which change with time.
 */
const NOT_REPLAYED =
  /^(?:date$|via$|idempotency-replayed$|access-control-|(?:x-)?ratelimit|x-rate-limit)/

/** The fields to store: the fields that the cache may store, except the ones listed above. */
export function replayableHeaders(headers: HeaderList): HeaderList {
  return reusableHeaders(headers, NOT_STORED, NOT_REPLAYED)
}

/** The result of a handler that completed with this head, or of a job, without its response. */
export function keptWithoutBody({
  status = 200,
  headers = [],
}: Partial<CapturedHead> = {}): KeptResponse {
  const location = headerValue(headers, 'location')
  const kept: HeaderList = location === undefined ? [] : [['location', location]]
  return { type: 'response', status, headers: kept, body: undefined }
}

/**
 * A copy that references no larger buffer or string, for results that stay in memory. In Node,
 * small buffers are views of a shared buffer of 8 KiB.
 */
export function ownKept(kept: Kept): Kept {
  if (kept.type === 'value')
    return { type: 'value', stored: { ...kept.stored, body: ownBytes(kept.stored.body) } }
  const { headers, body } = kept
  return { ...kept, headers: ownHeaders(headers), body: body && ownBytes(body) }
}

/** Memory of the strings and bytes of a result. */
export function bytesOf(kept: Kept): number {
  if (kept.type === 'value') return kept.stored.body.buffer.byteLength
  let bytes = kept.body?.buffer.byteLength ?? 0
  for (const [name, value] of kept.headers) {
    bytes += PAIR_BYTES + stringBytes(name) + stringBytes(value)
  }
  return bytes
}

// Each change of the layout needs a new kind. No kind is 0, because sealed frames begin with a zero
// byte. The two kinds differ in two bits, because no checksum covers the kind. 2 was the kind of an
// earlier layout.
const KIND_WHOLE = 1
const KIND_WITHOUT_BODY = 4
const NO_BODY = new Uint8Array()

/** Encodes a result. `name` is that of the record or step. Only the same name can decode it. */
export function encodeKept(name: string, kept: Kept): Uint8Array {
  const { body } = kept.type === 'value' ? kept.stored : kept
  const about = { initialAgeMs: 0, vary: [], provenance: UNKNOWN_PROVENANCE, body: body ?? NO_BODY }
  const frame = encodeFrame(name, kept.type === 'value' ? kept.stored : { ...kept, ...about }, 1)
  frame[0] = body === undefined ? KIND_WITHOUT_BODY : KIND_WHOLE
  return frame
}

/** Decodes a result. Undefined if it is damaged, or from another version, name or program. */
export function decodeKept(name: string, frame: Uint8Array): Kept | undefined {
  const isWhole = frame[0] === KIND_WHOLE
  if (!isWhole && frame[0] !== KIND_WITHOUT_BODY) return undefined
  const entry = decodeFrame(name, frame.subarray(1))
  if (entry === undefined) return undefined
  if (entry.type === 'value') return { type: 'value', stored: entry }
  const { status, fields, body, kind } = entry
  const headers = toHeaders(fields)
  return { type: 'response', status, headers, body: isWhole ? body : undefined, kind }
}

// Encryption: AES-256-GCM (NIST SP 800-38D). The additional data has the key of the record, so a
// response cannot be moved to another record.
//
//   magic (4)  key id (8)  IV (12)  ciphertext  tag (16)

/**
 * First bytes of a sealed frame. A frame that is not sealed never begins with NUL. The last byte is
 * the version of the format.
 */
const MAGIC = Buffer.from('\0SL\x01', 'latin1')
const ID_END = 12
const IV_END = 24
const TAG_BYTES = 16
const SHORTEST_KEY = 32

interface Key {
  /** Identifies the key in a sealed frame without revealing it. */
  readonly id: Buffer
  readonly key: Buffer
}

export class Seal {
  /** The first key encrypts. All keys decrypt. */
  readonly #keys: readonly Key[]

  /** `keys`: strings of at least 32 random characters. Throws `ERR_STAMPEDE_OPTION`. */
  constructor(keys: readonly string[]) {
    this.#keys = keys.map(derive)
  }

  get hasKeys(): boolean {
    return this.#keys.length > 0
  }

  /** A result as sealed bytes. `name` is that of the record or step. */
  encode(name: string, kept: Kept): Uint8Array {
    const frame = encodeKept(name, kept)
    return this.#keys.length === 0 ? frame : this.seal(name, frame)
  }

  /** Undefined if the bytes cannot be opened or decoded. */
  decode(name: string, sealed: Uint8Array): Kept | undefined {
    const frame = this.open(name, sealed)
    return frame && decodeKept(name, frame)
  }

  /** Encrypts a frame. Without keys, returns it unchanged. */
  seal(recordKey: string, frame: Uint8Array): Uint8Array {
    const [current] = this.#keys
    if (current === undefined) return frame
    const iv = randomBytes(IV_END - ID_END)
    const cipher = createCipheriv('aes-256-gcm', current.key, iv, { authTagLength: TAG_BYTES })
    cipher.setAAD(additionalData(recordKey))
    const sealed = cipher.update(frame)
    const end = cipher.final()
    return Buffer.concat([MAGIC, current.id, iv, sealed, end, cipher.getAuthTag()])
  }

  /**
   * Decrypts a frame. Undefined if the encryption key is unknown, or if the frame was changed or
   * belongs to another record. A frame that is not sealed is returned as it is, so that encryption
   * can be turned on later.
   */
  open(recordKey: string, frame: Uint8Array): Uint8Array | undefined {
    const bytes = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength)
    if (!bytes.subarray(0, MAGIC.length - 1).equals(MAGIC.subarray(0, -1))) return frame
    if (!bytes.subarray(0, MAGIC.length).equals(MAGIC)) return undefined
    if (bytes.length < IV_END + TAG_BYTES) return undefined
    const id = bytes.subarray(MAGIC.length, ID_END)
    const key = this.#keys.find((known) => known.id.equals(id))
    return key && decrypt(key, recordKey, bytes)
  }
}

function decrypt({ key }: Key, recordKey: string, bytes: Buffer): Uint8Array | undefined {
  const iv = bytes.subarray(ID_END, IV_END)
  const cipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES })
  cipher.setAAD(additionalData(recordKey))
  cipher.setAuthTag(bytes.subarray(-TAG_BYTES))
  try {
    return Buffer.concat([cipher.update(bytes.subarray(IV_END, -TAG_BYTES)), cipher.final()])
  } catch {
    return undefined
  }
}

/**
 * The additional data of a record: `MAGIC`, then the key of the record. `MAGIC` has a fixed length,
 * so two different keys never give the same data.
 */
function additionalData(recordKey: string): Buffer {
  return Buffer.concat([MAGIC, Buffer.from(recordKey)])
}

/** RFC 5869: derives the key and its id, so that the id reveals nothing about the key. */
function derive(text: string): Key {
  if (text.length < SHORTEST_KEY) {
    const fix = `use ${SHORTEST_KEY} or more random characters`
    throw optionError('idempotency.encryptionKeys', `${text.length} characters`, fix)
  }
  const part = (info: string, length: number): Buffer =>
    Buffer.from(hkdfSync('sha256', text, '', `stampede:idempotency:seal:1:${info}`, length))
  return { id: part('id', ID_END - MAGIC.length), key: part('key', 32) }
}
