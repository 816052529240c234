// What a completed attempt left, as bytes: one byte for the kind, then a frame as the cache keeps its
// entries in, or JSON. What comes back from a store is untrusted: decoding checks everything, never throws.

import { type StoredValue, UNKNOWN_ORIGIN } from '../entry/entry.ts'
import { decodeFrame, encodeFrame } from '../entry/frame.ts'
import { toFields, toHeaders } from '../http/fields.ts'
import type { HeaderList } from '../ports/exchange.ts'

export type Kept =
  | {
      readonly type: 'response'
      readonly status: number
      readonly headers: HeaderList
      readonly body: Uint8Array
    }
  /** It was answered, and the answer could not be kept. */
  | {
      readonly type: 'not-retained'
      readonly status: number
      readonly location: string | undefined
    }
  /** What a job returned. */
  | { readonly type: 'value'; readonly stored: StoredValue }

// A sealed frame begins otherwise (seal.ts), so a change of the layout is a new kind.
const KIND_FRAME = 1
const KIND_NOT_RETAINED = 2

export function encodeKept(kept: Kept): Uint8Array {
  if (kept.type === 'not-retained') {
    const { status, location } = kept
    return withKind(KIND_NOT_RETAINED, Buffer.from(JSON.stringify({ s: status, l: location })))
  }
  if (kept.type === 'value') return withKind(KIND_FRAME, encodeFrame(kept.stored))
  const { type, status, headers, body } = kept
  const about = { initialAgeMs: 0, vary: [], made: UNKNOWN_ORIGIN }
  return withKind(
    KIND_FRAME,
    encodeFrame({ type, status, fields: toFields(headers), body, ...about }),
  )
}

/** `undefined`: of a newer version, or not ours. */
export function decodeKept(frame: Uint8Array): Kept | undefined {
  const rest = frame.subarray(1)
  if (frame[0] === KIND_NOT_RETAINED) return readNotRetained(rest)
  if (frame[0] !== KIND_FRAME) return undefined
  const entry = decodeFrame(rest)
  if (entry === undefined) return undefined
  if (entry.type === 'value') return { type: 'value', stored: entry }
  const { status, fields, body } = entry
  return { type: 'response', status, headers: toHeaders(fields), body }
}

function withKind(kind: number, rest: Uint8Array): Uint8Array {
  const frame = Buffer.allocUnsafeSlow(1 + rest.byteLength)
  frame[0] = kind
  frame.set(rest, 1)
  return frame
}

function readNotRetained(json: Uint8Array): Kept | undefined {
  let head: { s?: unknown; l?: unknown } | null
  try {
    head = JSON.parse(Buffer.from(json).toString())
  } catch {
    return undefined
  }
  if (typeof head !== 'object' || head === null) return undefined
  const { s: status, l: location } = head
  if (!isStatus(status) || !(location === undefined || isFieldValue(location))) return undefined
  return { type: 'not-retained', status, location }
}

const isStatus = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 200 && (value as number) <= 599

/** RFC 9110 §5.5: no CR, LF or NUL, so that no header can be injected; latin1, as Node requires. */
const isFieldValue = (value: unknown): value is string =>
  typeof value === 'string' && !/[^\t\x20-\x7e\x80-\xff]/.test(value)
