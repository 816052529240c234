// Frames: stored entries as bytes. A shared store is not trusted, so decoding checks all parts and
// returns `undefined` instead of throwing.
//
// | offset | bytes |                                   |
// |--------|-------|-----------------------------------|
// | 0      | 1     | magic number                      |
// | 1      | 1     | version: 3, or 4 with a codec     |
// | 2      | 4     | CRC-32 of the bytes from 6 on     |
// | 6      | 1     | kind                              |
// | 7      | 1     | codec of the body. 0: none        |
// | 8      | 4     | length of the head                |
// | 12     | 4     | length of the body                |
// | 16     | 8     | start of the digest of the key    |
// | 24     |       | head (JSON), followed by the body |
//
// A store may compress the body. A process of an earlier version, which would serve the compressed
// bytes, refuses version 4.
//
// The checksum detects changed bytes. The digest detects a frame under another key, such as after a
// client assigned replies to the wrong commands. Both protect against accidents only: a client that
// can write to the store can also create a valid frame.

import { hash } from 'node:crypto'
import zlib, { crc32 } from 'node:zlib'
import { storableHeaders, toFields, toHeaders } from '../http/headers.ts'
import type { BodyKind, HeaderList } from '../ports/exchange.ts'
import { ownBytes, type Provenance, type StoredEntry, type StoredResponse } from './entry.ts'
import { parsedFrom } from './parsed-value.ts'

const MAGIC = 0x53
/** Raised with each change of the layout. A frame of another version is a miss. */
const VERSION = 3
/** The version of a frame whose body is compressed. */
const CODED_VERSION = 4
const CRC_AT = 2
const KIND_AT = 6
const CODEC_AT = 7
const HEAD_LENGTH_AT = 8
const BODY_LENGTH_AT = 12
const DIGEST_AT = 16
const PREFIX_BYTES = 24
const KIND_RESPONSE = 1
const KIND_JSON = 2
const KIND_BYTES = 3

/** A codec for bodies at rest: brotli, gzip or Zstandard. */
export type Codec = 'gzip' | 'br' | 'zstd'
/** A codec has its index as its number in frames. */
const CODECS: readonly (Codec | undefined)[] = [undefined, 'gzip', 'br', 'zstd']
type Decompress = (bytes: Uint8Array, limits: zlib.ZlibOptions & zlib.BrotliOptions) => Buffer
const DECOMPRESS: Readonly<Record<Codec, Decompress | undefined>> = {
  gzip: zlib.gunzipSync,
  br: zlib.brotliDecompressSync,
  // Since Node 22.15.
  zstd: (zlib as { readonly zstdDecompressSync?: Decompress }).zstdDecompressSync,
}
/** Longest body before compression. A longer one fits into no store. */
const MAX_CODED_BYTES = 4 * 1024 * 1024
/** Types whose bytes are compressed already. */
const CODED_TYPE =
  /^(?:audio|video|image\/(?!svg|bmp)|font\/woff|application\/(?:g?zip|zstd|x-(?:7z|bz|rar|xz)))/i

/**
 * Head of an entry, with the properties of `Provenance`. The names are short because they are
 * stored with each entry.
 */
interface Head {
  /** `asOf`. */
  readonly p: number
  /** `tookMs`. */
  readonly d: number
  /** `subjects`. */
  readonly t: readonly string[]
  /** `path`. */
  readonly u?: string | undefined
  /** `host`. */
  readonly o?: string | undefined
  /** `route`. */
  readonly r?: string | undefined
  /** Length of the body before compression. */
  readonly z?: number | undefined
}

/** Head of a response, with the properties of `StoredResponse`. */
interface ResponseHead extends Head {
  /** `status`. */
  readonly s: number
  /** `fields`, as pairs. */
  readonly h: HeaderList
  /** `initialAgeMs`. */
  readonly a: number
  /** `vary`. */
  readonly v: StoredResponse['vary']
  /** Whether the ETag was generated. */
  readonly m?: 1 | undefined
  /** Value of the response field `stampede-cache-control`. */
  readonly w?: string | undefined
  /** Kind of the body. A version that does not know the kind treats the body as bytes. */
  readonly k?: string | undefined
}

const KINDS: Readonly<Record<BodyKind, string>> = {
  ...{ json: 'j', string: 's', stream: 'r', null: 'n', status: 'c' },
}

function kindNamed(letter: unknown): BodyKind | undefined {
  return (Object.keys(KINDS) as BodyKind[]).find((kind) => KINDS[kind] === letter)
}

/** A response to be stored, with its fields as pairs. */
type PairedResponse = Omit<StoredResponse, 'fields'> & { readonly headers: HeaderList }

/**
 * Encodes an entry. Only `decodeFrame` with the same key can decode it. The caller may set the
 * first `before` bytes, which come before the frame.
 */
export function encodeFrame(key: string, entry: StoredEntry | PairedResponse, before = 0): Buffer {
  const { asOf: p, tookMs: d, subjects: t, path: u, host: o, route: r } = entry.provenance
  // JSON omits properties that are undefined.
  if (entry.type === 'value') {
    const kind = entry.encoding === 'json' ? KIND_JSON : KIND_BYTES
    const head: Head = { p, d, t, u, o }
    return pack(digestOf(key), kind, JSON.stringify(head), entry.body, before)
  }
  const { status: s, initialAgeMs: a, vary: v, minted: m, own: w, kind } = entry
  const h = 'headers' in entry ? entry.headers : toHeaders(entry.fields)
  const k = kind && KINDS[kind]
  const head: ResponseHead = { p, d, t, u, o, r, s, h, a, v, m: m && 1, w, k }
  return pack(digestOf(key), KIND_RESPONSE, JSON.stringify(head), entry.body, before)
}

/**
 * Decodes a frame. Undefined if it is not valid, or has another key. An operator who knows only the
 * hash of a key passes undefined as the key. Set `toKeep` to false if the entry does not go
 * into L1. Its body may then be a view of `bytes`, which keeps their whole buffer in memory.
 */
export function decodeFrame(
  key: string | undefined,
  bytes: Uint8Array,
  { toKeep = true }: { readonly toKeep?: boolean } = {},
): StoredEntry | undefined {
  const frame = unpack(key, bytes)
  const provenance = frame && provenanceOf(frame.head)
  if (frame === undefined || provenance === undefined) return undefined
  const { kind, head } = frame
  const body = toKeep ? ownBytes(frame.body) : frame.body
  if (kind === KIND_RESPONSE) return parseResponse(head, body, provenance)
  if (kind === KIND_BYTES) return { type: 'value', encoding: 'bytes', body, provenance }
  if (kind !== KIND_JSON) return undefined
  try {
    const parsed = parsedFrom(body, toKeep)
    return { type: 'value', encoding: 'json', body, provenance, parsed, copy: undefined }
  } catch {
    return undefined
  }
}

/**
 * The body of a frame, for a store that compresses it, and what returns the frame with the
 * compressed body. Undefined if the body is shorter than `minBytes`, if it is compressed already,
 * or if the bytes are no frame of an entry.
 */
export function compressibleBody(
  bytes: Uint8Array,
  minBytes: number,
): { body: Buffer; frameWith(codec: Codec, packed: Uint8Array): Buffer } | undefined {
  const frame = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (frame.length < PREFIX_BYTES || frame[0] !== MAGIC || frame[1] !== VERSION) return undefined
  const bodyBytes = frame.readUInt32BE(BODY_LENGTH_AT)
  const headEnd = PREFIX_BYTES + frame.readUInt32BE(HEAD_LENGTH_AT)
  const kind = frame[KIND_AT] as number
  if (bodyBytes < minBytes || bodyBytes > MAX_CODED_BYTES) return undefined
  if (headEnd + bodyBytes !== frame.length) return undefined
  const head = frame.toString('utf8', PREFIX_BYTES, headEnd)
  const { h = [] } = parseHead(head) ?? {}
  const isCoded = ([name, value]: HeaderList[number]) =>
    name === 'content-encoding' || (name === 'content-type' && CODED_TYPE.test(value))
  if ((h as HeaderList).some(isCoded)) return undefined
  const frameWith = (codec: Codec, packed: Uint8Array): Buffer => {
    const digest = frame.toString('hex', DIGEST_AT, PREFIX_BYTES)
    const coded = `{"z":${bodyBytes},${head.slice(1)}`
    return pack(digest, kind, coded, packed, 0, CODECS.indexOf(codec))
  }
  return { body: frame.subarray(headEnd), frameWith }
}

/** The codec of a frame that `decodeFrame` can decode. Undefined if its body is not compressed. */
export function codecOf(frame: Uint8Array): Codec | undefined {
  return CODECS[frame[CODEC_AT] ?? 0]
}

function pack(
  digest: string,
  kind: number,
  head: string,
  body: Uint8Array,
  before: number,
  codec = 0,
): Buffer {
  const headBytes = Buffer.byteLength(head)
  const bytes = Buffer.allocUnsafeSlow(before + PREFIX_BYTES + headBytes + body.length)
  const frame = before === 0 ? bytes : bytes.subarray(before)
  frame[0] = MAGIC
  frame[1] = codec === 0 ? VERSION : CODED_VERSION
  frame[KIND_AT] = kind
  frame[CODEC_AT] = codec
  frame.writeUInt32BE(headBytes, HEAD_LENGTH_AT)
  frame.writeUInt32BE(body.length, BODY_LENGTH_AT)
  frame.write(digest, DIGEST_AT, 'hex')
  frame.write(head, PREFIX_BYTES)
  frame.set(body, PREFIX_BYTES + headBytes)
  frame.writeUInt32BE(crc32(frame.subarray(KIND_AT)), CRC_AT)
  return bytes
}

interface Unpacked {
  readonly kind: number
  readonly head: Untrusted
  readonly body: Uint8Array
}

function unpack(key: string | undefined, bytes: Uint8Array): Unpacked | undefined {
  const frame = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (frame.length < PREFIX_BYTES || frame[0] !== MAGIC) return undefined
  const codec = frame[CODEC_AT] as number
  if (frame[1] !== (codec === 0 ? VERSION : CODED_VERSION)) return undefined
  const headEnd = PREFIX_BYTES + frame.readUInt32BE(HEAD_LENGTH_AT)
  if (headEnd + frame.readUInt32BE(BODY_LENGTH_AT) !== frame.length) return undefined
  if (crc32(frame.subarray(KIND_AT)) !== frame.readUInt32BE(CRC_AT)) return undefined
  const digest = frame.toString('hex', DIGEST_AT, PREFIX_BYTES)
  if (key !== undefined && digest !== digestOf(key)) return undefined
  const head = parseHead(frame.toString('utf8', PREFIX_BYTES, headEnd))
  const kind = frame[KIND_AT] as number
  const stored = frame.subarray(headEnd)
  if (head === undefined || codec === 0) return head && { kind, head, body: stored }
  const body = decompress(CODECS[codec], stored, head.z)
  return body && { kind, head, body }
}

/** Undefined unless the bytes decompress to exactly `length` bytes. */
function decompress(
  codec: Codec | undefined,
  bytes: Uint8Array,
  length: unknown,
): Uint8Array | undefined {
  if (codec === undefined || !isCount(length) || length > MAX_CODED_BYTES) return undefined
  try {
    // One buffer takes the whole body. The decoder stops if there is more.
    const limits = { maxOutputLength: length, chunkSize: Math.ceil(length) + 64 }
    const body = DECOMPRESS[codec]?.(bytes, limits)
    return body?.length === length ? body : undefined
  } catch {
    return undefined
  }
}

/** The first 8 bytes of the SHA-256 of the key, as hex because `hash` returns hex fastest. */
function digestOf(key: string): string {
  return hash('sha256', key, 'hex').slice(0, 2 * (PREFIX_BYTES - DIGEST_AT))
}

type Untrusted = Partial<Record<keyof ResponseHead, unknown>>

function parseHead(json: string): Untrusted | undefined {
  try {
    const head: unknown = JSON.parse(json)
    return typeof head === 'object' && head !== null ? head : undefined
  } catch {
    return undefined
  }
}

function provenanceOf({ p, d, t, u, o, r }: Untrusted): Provenance | undefined {
  if (!isCount(p) || !isCount(d)) return undefined
  if (!Array.isArray(t) || !t.every((subject) => typeof subject === 'string')) return undefined
  if (!isText(u) || !isText(o) || !isText(r)) return undefined
  return { asOf: p, tookMs: d, subjects: t, path: u, host: u === undefined ? u : o, route: r }
}

const isText = (value: unknown): value is string | undefined =>
  value === undefined || typeof value === 'string'

/** JSON may contain 1e999, which is parsed as Infinity. */
const isCount = (value: unknown): value is number =>
  typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER

function parseResponse(
  head: Untrusted,
  body: Uint8Array,
  provenance: Provenance,
): StoredResponse | undefined {
  const { s, h, a, v, m, w, k } = head
  if (!Number.isInteger(s) || (s as number) < 200 || (s as number) > 599) return undefined
  if (!isCount(a)) return undefined
  if (!isPairs(h, isFieldValue) || !isPairs(v, isFieldValueOrAbsent)) return undefined
  if ((m !== undefined && m !== 1) || (w !== undefined && !isFieldValue(w))) return undefined
  const { h: headers, v: vary } = head as ResponseHead
  // Cookies and tokens of one caller are never stored, so a frame with such a field is not valid.
  if (storableHeaders(headers).length !== headers.length) return undefined
  return {
    type: 'response',
    status: s as number,
    fields: toFields(headers),
    initialAgeMs: a,
    vary,
    body,
    provenance,
    minted: m === 1 ? true : undefined,
    own: w as string | undefined,
    kind: kindNamed(k),
  }
}

function isPairs(value: unknown, isValid: (part: unknown) => boolean): boolean {
  const isPair = (pair: unknown) =>
    Array.isArray(pair) && pair.length === 2 && isFieldName(pair[0]) && isValid(pair[1])
  return Array.isArray(value) && value.every(isPair)
}

/** RFC 9110 §5.1: a token, in lower case. */
const isFieldName = (value: unknown): boolean =>
  typeof value === 'string' && /^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(value)

/**
 * RFC 9110 §5.5: Latin-1, as Node requires, without CR, LF and NUL, which could inject a header.
 */
const isFieldValue = (value: unknown): boolean =>
  typeof value === 'string' && !/[^\t\x20-\x7e\x80-\xff]/.test(value)

const isFieldValueOrAbsent = (value: unknown): boolean => value === null || isFieldValue(value)
