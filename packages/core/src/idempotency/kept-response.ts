// The stored result of a completed attempt, as bytes. The first byte is the kind. After it comes a
// frame as in the cache, or a framed JSON object. The store is not trusted, so decoding checks all
// parts and never throws.

import {
  deepCopy,
  ownBytes,
  PAIR_BYTES,
  type StoredValue,
  stringBytes,
  UNKNOWN_PROVENANCE,
} from '../entry/entry.ts'
import { decodeFrame, decodeNote, encodeFrame, encodeNote } from '../entry/frame.ts'
import { ownHeaders, toFields, toHeaders } from '../http/fields.ts'
import { headerValue } from '../http/headers.ts'
import type { BodyKind, HeaderList } from '../ports/exchange.ts'
import type { Fingerprints, LazyFrame } from '../ports/idempotency-store.ts'

export type Kept =
  | {
      readonly type: 'response'
      readonly status: number
      readonly headers: HeaderList
      readonly body: Uint8Array
      readonly kind?: BodyKind | undefined
    }
  /** The handler responded, but the response could not be stored. */
  | {
      readonly type: 'not-retained'
      readonly status: number
      readonly location: string | undefined
    }
  /** The value that a job returned. */
  | { readonly type: 'value'; readonly stored: StoredValue }

/** The result of a handler that completed, without its response. */
export type NotRetained = Extract<Kept, { type: 'not-retained' }>

export function withoutBody(kept: Kept): NotRetained {
  if (kept.type === 'not-retained') return kept
  const { status, headers } = kept.type === 'value' ? { status: 200, headers: [] } : kept
  return { type: 'not-retained', status, location: headerValue(headers, 'location') }
}

/**
 * A copy that references no larger buffer or string, for results that stay in memory. In Node,
 * small buffers are views of a shared buffer of 8 KiB.
 */
export function ownKept(kept: Kept): Kept {
  if (kept.type === 'not-retained') return deepCopy(kept)
  if (kept.type === 'response') {
    return { ...kept, headers: ownHeaders(kept.headers), body: ownBytes(kept.body) }
  }
  return { type: 'value', stored: { ...kept.stored, body: ownBytes(kept.stored.body) } }
}

/** A result with the fingerprints of its request. */
export interface Replay {
  readonly kept: Kept
  readonly fingerprints: Fingerprints
}

/** Memory of the strings and bytes of a result, its key and its fingerprints. */
export function bytesOf(
  key: string,
  { kept, fingerprints }: { readonly kept: Kept | undefined; readonly fingerprints: Fingerprints },
): number {
  const names = [key, fingerprints.exact, fingerprints.canonical]
  const bytes = names.reduce((sum, name) => sum + stringBytes(name), 0)
  return kept === undefined ? bytes : bytes + bytesOfKept(kept)
}

function bytesOfKept(kept: Kept): number {
  if (kept.type === 'not-retained') return stringBytes(kept.location ?? '')
  if (kept.type === 'value') return kept.stored.body.buffer.byteLength
  let bytes = kept.body.buffer.byteLength
  for (const [name, value] of kept.headers) {
    bytes += PAIR_BYTES + stringBytes(name) + stringBytes(value)
  }
  return bytes
}

// Each change of the layout needs a new kind. No kind is 0, because sealed frames begin with a zero
// byte (seal.ts).
const KIND_FRAME = 1
const KIND_NOT_RETAINED = 2

/** Encodes a result. `name` is that of the record or step. Only the same name can decode it. */
export function encodeKept(name: string, kept: Kept): Uint8Array {
  if (kept.type === 'not-retained') {
    const { status, location } = kept
    return withKind(KIND_NOT_RETAINED, encodeNote(name, { s: status, l: location }))
  }
  if (kept.type === 'value') return withKind(KIND_FRAME, encodeFrame(name, kept.stored))
  const { type, status, headers, body, kind } = kept
  const about = { initialAgeMs: 0, vary: [], provenance: UNKNOWN_PROVENANCE }
  return withKind(
    KIND_FRAME,
    encodeFrame(name, { type, status, fields: toFields(headers), body, kind, ...about }),
  )
}

/** A result that is encoded when it is first read. `kept` must come from `ownKept`. */
export class LazyKept implements LazyFrame {
  readonly bytes: number
  readonly #name: string
  readonly #kept: Kept

  constructor(name: string, kept: Kept) {
    this.#name = name
    this.#kept = kept
    this.bytes = bytesOfKept(kept)
  }

  encode(): Uint8Array {
    return encodeKept(this.#name, this.#kept)
  }
}

/** Decodes a result. Undefined if it is damaged, or from another version, name or program. */
export function decodeKept(name: string, frame: Uint8Array): Kept | undefined {
  const rest = frame.subarray(1)
  if (frame[0] === KIND_NOT_RETAINED) return readNotRetained(decodeNote(name, rest))
  if (frame[0] !== KIND_FRAME) return undefined
  const entry = decodeFrame(name, rest)
  if (entry === undefined) return undefined
  if (entry.type === 'value') return { type: 'value', stored: entry }
  const { status, fields, body, kind } = entry
  return { type: 'response', status, headers: toHeaders(fields), body, kind }
}

function withKind(kind: number, rest: Uint8Array): Uint8Array {
  const frame = Buffer.allocUnsafeSlow(1 + rest.byteLength)
  frame[0] = kind
  frame.set(rest, 1)
  return frame
}

function readNotRetained(note: ReturnType<typeof decodeNote>): Kept | undefined {
  const { s: status, l: location } = note ?? {}
  if (!isStatus(status) || !(location === undefined || isFieldValue(location))) return undefined
  return { type: 'not-retained', status, location }
}

const isStatus = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 200 && (value as number) <= 599

/** RFC 9110 §5.5: no CR, LF or NUL, which could inject a header. Latin-1, as Node requires. */
const isFieldValue = (value: unknown): value is string =>
  typeof value === 'string' && !/[^\t\x20-\x7e\x80-\xff]/.test(value)
