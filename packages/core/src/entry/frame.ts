// A stored entry as bytes: magic, layout version, kind, head length, head (JSON), body. What comes back
// from a shared store is untrusted, so decoding checks everything and answers `undefined`, never throws.

import type { HeaderList } from '../ports/exchange.ts'
import type { StoredEntry, StoredResponse, StoredValue } from './entry.ts'
import { parseFrozen } from './frozen-json.ts'

const MAGIC = 0x53
/** Raised whenever the layout changes; a frame of another version is a miss. */
const VERSION = 1
const PREFIX_BYTES = 12
const KIND_RESPONSE = 1
const KIND_JSON = 2
const KIND_BYTES = 3

interface ResponseHead {
  readonly s: number
  readonly h: HeaderList
  readonly a: number
  readonly v: StoredResponse['vary']
}

export function encodeFrame(entry: StoredEntry): Buffer {
  const head = entry.type === 'response' ? Buffer.from(JSON.stringify(headOf(entry))) : EMPTY
  const frame = Buffer.allocUnsafeSlow(PREFIX_BYTES + head.length + entry.body.length)
  frame[0] = MAGIC
  frame[1] = VERSION
  frame[2] = kindOf(entry)
  frame[3] = 0
  frame.writeUInt32BE(head.length, 4)
  frame.writeUInt32BE(entry.body.length, 8)
  frame.set(head, PREFIX_BYTES)
  frame.set(entry.body, PREFIX_BYTES + head.length)
  return frame
}

export function decodeFrame(bytes: Uint8Array): StoredEntry | undefined {
  const frame = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (frame.length < PREFIX_BYTES || frame[0] !== MAGIC || frame[1] !== VERSION) return undefined
  const headEnd = PREFIX_BYTES + frame.readUInt32BE(4)
  if (headEnd + frame.readUInt32BE(8) !== frame.length) return undefined
  const body = ownMemory(frame.subarray(headEnd))
  if (frame[2] === KIND_JSON) return readJson(body)
  if (frame[2] === KIND_BYTES) return { type: 'value', encoding: 'bytes', body }
  if (frame[2] !== KIND_RESPONSE) return undefined
  const head = readHead(frame.toString('utf8', PREFIX_BYTES, headEnd))
  if (head === undefined) return undefined
  return {
    type: 'response',
    status: head.s,
    headers: head.h,
    initialAgeMs: head.a,
    vary: head.v,
    body,
  }
}

const EMPTY = Buffer.alloc(0)

/**
 * A view into a socket's read buffer would keep all of that buffer alive for as long as the entry is
 * held, so it is copied; a view that is most of its buffer is not.
 */
function ownMemory(view: Buffer): Buffer {
  if (view.length * 2 >= view.buffer.byteLength) return view
  const own = Buffer.allocUnsafeSlow(view.length)
  view.copy(own)
  return own
}

function readJson(body: Buffer): StoredValue | undefined {
  try {
    return { type: 'value', encoding: 'json', body, parsed: { value: parseFrozen(body) } }
  } catch {
    return undefined
  }
}

function kindOf(entry: StoredEntry): number {
  if (entry.type === 'response') return KIND_RESPONSE
  return entry.encoding === 'json' ? KIND_JSON : KIND_BYTES
}

function headOf(entry: StoredResponse): ResponseHead {
  return { s: entry.status, h: entry.headers, a: entry.initialAgeMs, v: entry.vary }
}

function readHead(json: string): ResponseHead | undefined {
  let head: Partial<Record<keyof ResponseHead, unknown>>
  try {
    head = JSON.parse(json)
  } catch {
    return undefined
  }
  if (typeof head !== 'object' || head === null) return undefined
  const { s, h, a, v } = head
  if (!Number.isInteger(s) || (s as number) < 200 || (s as number) > 599) return undefined
  if (typeof a !== 'number' || !(a >= 0)) return undefined
  if (!isPairs(h, isFieldValue) || !isPairs(v, isFieldValueOrAbsent)) return undefined
  return { s, h, a, v } as ResponseHead
}

function isPairs(value: unknown, isValid: (part: unknown) => boolean): boolean {
  const isPair = (pair: unknown) =>
    Array.isArray(pair) && pair.length === 2 && isFieldName(pair[0]) && isValid(pair[1])
  return Array.isArray(value) && value.every(isPair)
}

/** RFC 9110 §5.1: a token; stored lower-case. */
const isFieldName = (value: unknown): boolean =>
  typeof value === 'string' && /^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(value)

/** RFC 9110 §5.5: no CR, LF or NUL, so that no header can be injected; latin1, as Node requires. */
const isFieldValue = (value: unknown): boolean =>
  typeof value === 'string' && !/[^\t\x20-\x7e\x80-\xff]/.test(value)

const isFieldValueOrAbsent = (value: unknown): boolean => value === null || isFieldValue(value)
