// A stored entry as bytes: magic, layout version, kind, head length, head (JSON), body. What comes back
// from a shared store is untrusted, so decoding checks everything and answers `undefined`, never throws.

import { toFields, toHeaders } from '../http/fields.ts'
import { lastingHeaders } from '../http/headers.ts'
import type { HeaderList } from '../ports/exchange.ts'
import type { Made, StoredEntry, StoredResponse, StoredValue } from './entry.ts'
import { ownBytes } from './own-memory.ts'
import { parsedFrom } from './parsed-value.ts'

const MAGIC = 0x53
/** Raised whenever the layout changes; a frame of another version is a miss. */
const VERSION = 2
const PREFIX_BYTES = 12
const KIND_RESPONSE = 1
const KIND_JSON = 2
const KIND_BYTES = 3

/** Of everything: position, milliseconds, subjects, path, host. */
interface Head {
  readonly p: number
  readonly d: number
  readonly t: readonly string[]
  readonly u?: string
  readonly o?: string
}

interface ResponseHead extends Head {
  readonly s: number
  readonly h: HeaderList
  readonly a: number
  readonly v: StoredResponse['vary']
  /** Minted, and own. */
  readonly m?: 1
  readonly w?: string
}

export function encodeFrame(entry: StoredEntry): Buffer {
  const head = encodeHead(entry)
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

/** The head alone, as it is put over a frame whose body stays as it is. */
export function encodeHead(entry: StoredEntry): Buffer {
  return Buffer.from(JSON.stringify(headOf(entry)))
}

/** `entry` with another head. Undefined if that cannot be read, or is not of such an entry. */
export function withHead(entry: StoredEntry, bytes: Uint8Array): StoredEntry | undefined {
  const head = readHead(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString())
  const made = head && madeOf(head)
  if (head === undefined || made === undefined) return undefined
  return entry.type === 'value' ? { ...entry, made } : readResponse(head, entry.body, made)
}

/** What is not `toKeep` may have a body that is a view of the bytes, and keeps all alive that they are a part of. */
export function decodeFrame(
  bytes: Uint8Array,
  { toKeep = true }: { readonly toKeep?: boolean } = {},
): StoredEntry | undefined {
  const frame = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (frame.length < PREFIX_BYTES || frame[0] !== MAGIC || frame[1] !== VERSION) return undefined
  const headEnd = PREFIX_BYTES + frame.readUInt32BE(4)
  if (headEnd + frame.readUInt32BE(8) !== frame.length) return undefined
  const head = readHead(frame.toString('utf8', PREFIX_BYTES, headEnd))
  const made = head && madeOf(head)
  if (head === undefined || made === undefined) return undefined
  const part = frame.subarray(headEnd)
  const body = toKeep ? ownBytes(part) : part
  if (frame[2] === KIND_JSON) return readJson(body, made)
  if (frame[2] === KIND_BYTES) return { type: 'value', encoding: 'bytes', body, made }
  return frame[2] === KIND_RESPONSE ? readResponse(head, body, made) : undefined
}

function readJson(body: Uint8Array, made: Made): StoredValue | undefined {
  try {
    return { type: 'value', encoding: 'json', body, made, parsed: parsedFrom(body) }
  } catch {
    return undefined
  }
}

function kindOf(entry: StoredEntry): number {
  if (entry.type === 'response') return KIND_RESPONSE
  return entry.encoding === 'json' ? KIND_JSON : KIND_BYTES
}

function headOf(entry: StoredEntry): Head | ResponseHead {
  const { asOf, tookMs, subjects, path, host } = entry.made
  const head: Head = {
    p: asOf,
    d: tookMs,
    t: subjects,
    ...(path !== undefined && { u: path }),
    ...(host !== undefined && { o: host }),
  }
  if (entry.type === 'value') return head
  const { status, fields, initialAgeMs, vary, minted, own } = entry
  return {
    ...head,
    s: status,
    h: toHeaders(fields),
    a: initialAgeMs,
    v: vary,
    ...(minted && { m: 1 }),
    ...(own !== undefined && { w: own }),
  }
}

type Untrusted = Partial<Record<keyof ResponseHead, unknown>>

function readHead(json: string): Untrusted | undefined {
  try {
    const head: unknown = JSON.parse(json)
    return typeof head === 'object' && head !== null ? head : undefined
  } catch {
    return undefined
  }
}

function madeOf({ p, d, t, u, o }: Untrusted): Made | undefined {
  if (!isCount(p) || !isCount(d)) return undefined
  if (!Array.isArray(t) || !t.every((subject) => typeof subject === 'string')) return undefined
  if (u !== undefined && typeof u !== 'string') return undefined
  if (o !== undefined && typeof o !== 'string') return undefined
  const place = u === undefined ? {} : { path: u, ...(o !== undefined && { host: o }) }
  return { asOf: p, tookMs: d, subjects: t, ...place }
}

/** JSON has room for numbers that are as good as infinite, and 1e999 is. */
const isCount = (value: unknown): value is number =>
  typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER

function readResponse(head: Untrusted, body: Uint8Array, made: Made): StoredResponse | undefined {
  const { s, h, a, v, m, w } = head
  if (!Number.isInteger(s) || (s as number) < 200 || (s as number) > 599) return undefined
  if (!isCount(a)) return undefined
  if (!isPairs(h, isFieldValue) || !isPairs(v, isFieldValueOrAbsent)) return undefined
  if ((m !== undefined && m !== 1) || (w !== undefined && !isFieldValue(w))) return undefined
  const { h: headers, v: vary } = head as ResponseHead
  // A cookie of somebody, the framing of another answer: it was not put there by us.
  if (lastingHeaders(headers).length !== headers.length) return undefined
  return {
    type: 'response',
    status: s as number,
    fields: toFields(headers),
    initialAgeMs: a,
    vary,
    body,
    made,
    ...(m === 1 && { minted: true as const }),
    ...(w !== undefined && { own: w as string }),
  }
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
