// Keyed hashes: the keys of records, and the fingerprints of requests. The secret prevents a reader
// of the store from guessing keys and bodies. Each use has its own prefix, and each part its
// length, so that two different inputs never give the same message.

import { hash } from 'node:crypto'

type Part = string | Uint8Array | undefined

/** Raised when the layout below changes. Older records are not found after that. */
const VERSION = 'stampede:idempotency:1'

/** A byte for the kind of a part, then its length. */
const MARK_BYTES = 7

type Use = 'record' | 'fingerprint' | 'child'

/** SHA-256 takes blocks of this size, and HMAC pads the secret to one. */
const BLOCK_BYTES = 64
const DIGEST_BYTES = 32

/** Messages up to this size reuse one buffer, since a new buffer would cost as much as the hash. */
const scratch = Buffer.allocUnsafeSlow(8 * 1024)

/**
 * HMAC-SHA256 (RFC 2104) as base64url, which has 43 characters. It calls the one-shot `hash` twice,
 * which costs a quarter of one `createHmac`.
 */
export class KeyedHash {
  /** For each use: the inner padding, then the prefix of its messages. */
  readonly #begin: Readonly<Record<Use, Buffer>>
  /** The outer padding, then space for the inner digest. */
  readonly #outer: Buffer

  constructor(secret: string) {
    const bytes = Buffer.from(secret)
    const block = Buffer.alloc(BLOCK_BYTES)
    block.set(bytes.length > BLOCK_BYTES ? hash('sha256', bytes, 'buffer') : bytes)
    const inner = block.map((byte) => byte ^ 0x36)
    const begin = (use: Use): Buffer => {
      const message = Buffer.alloc(BLOCK_BYTES + sizeOf(VERSION) + sizeOf(use))
      message.set(inner)
      encode(message, encode(message, BLOCK_BYTES, VERSION), use)
      return message
    }
    this.#begin = {
      record: begin('record'),
      fingerprint: begin('fingerprint'),
      child: begin('child'),
    }
    this.#outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES)
    this.#outer.set(block.map((byte) => byte ^ 0x5c))
  }

  /**
   * Key of the record for the key of a client. Undefined if the scope is neither a non-empty string
   * nor a number.
   */
  requestKey(scope: unknown, key: string): string | undefined {
    const isText = typeof scope === 'string' && scope !== ''
    if (!isText && typeof scope !== 'bigint' && !Number.isFinite(scope)) return undefined
    return this.#hash('record', ['http', String(scope), key])
  }

  /** Key of the record for the key of a job. */
  jobKey(scope: string, key: string): string {
    return this.#hash('record', ['job', scope, key])
  }

  /**
   * One fingerprint of all parts. An absent part and an empty one give different results, and so do
   * a text and its bytes.
   */
  fingerprint(parts: readonly Part[]): string {
    return this.#hash('fingerprint', parts)
  }

  /**
   * An idempotency key for a service that the handler calls. It is the same in each attempt. The
   * service cannot derive the client's key or the record's key from it.
   */
  childKey(recordKey: string, name: string): string {
    return this.#hash('child', [recordKey, name])
  }

  #hash(use: Use, parts: readonly Part[]): string {
    const begin = this.#begin[use]
    let bytes = begin.length
    for (const part of parts) bytes += sizeOf(part)
    const message = bytes > scratch.length ? Buffer.allocUnsafe(bytes) : scratch
    message.set(begin)
    let at = begin.length
    for (const part of parts) at = encode(message, at, part)
    const inner = hash('sha256', message.subarray(0, bytes), 'binary')
    this.#outer.write(inner, BLOCK_BYTES, 'latin1')
    return hash('sha256', this.#outer, 'base64url')
  }
}

function sizeOf(part: Part): number {
  if (part === undefined) return MARK_BYTES
  return MARK_BYTES + (typeof part === 'string' ? part.length * 2 : part.byteLength)
}

/**
 * Writes kind, length and the part. Text is written as UTF-16, because UTF-8 has the same bytes for
 * all lone surrogates.
 */
function encode(message: Buffer, at: number, part: Part): number {
  const bytes = sizeOf(part) - MARK_BYTES
  const start = at + MARK_BYTES
  message[at] = part === undefined ? 0 : typeof part === 'string' ? 1 : 2
  message.writeUIntBE(bytes, at + 1, MARK_BYTES - 1)
  if (typeof part === 'string') message.write(part, start, 'utf16le')
  else if (part !== undefined) message.set(part, start)
  return start + bytes
}
