// The names of things in a store, and what requests are compared by. Keyed with the secret, so that nobody
// who reads the store learns a client's key or can try out bodies; each use has a domain of its own, and
// every part its length, so that no part runs into the next.

import { hash } from 'node:crypto'

type Part = string | Uint8Array | undefined

/** Changes with the layout below: what was hashed before is then another record. */
const VERSION = 'stampede:idempotency:1'

const ABSENT = 0
const TEXT = 1
const BYTES = 2
const MARK_BYTES = 7

type Use = 'record' | 'fingerprint' | 'child'

/** SHA-256 takes blocks of this size, and HMAC pads the secret to one. */
const BLOCK_BYTES = 64
const DIGEST_BYTES = 32

/** Messages up to this size are built here: a buffer for each would cost as much as its hash. */
const scratch = Buffer.allocUnsafeSlow(8 * 1024)

/**
 * HMAC-SHA256 (RFC 2104) as base64url: 43 characters. It is two one-shot hashes, which cost a quarter
 * of one `createHmac`.
 */
export class KeyedHash {
  /** The inner padding, then what every message of this use begins with. */
  readonly #begin: Readonly<Record<Use, Buffer>>
  /** The outer padding, then room for the inner digest. */
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

  /** The record of a client's key: one for each scope, and another for jobs than for HTTP. */
  recordKey(domain: 'http' | 'job', scope: string, key: string): string {
    return this.#hash('record', [domain, scope, key])
  }

  /** An absent part is another than an empty one, text another than the same text as bytes. */
  fingerprint(parts: readonly Part[]): string {
    return this.#hash('fingerprint', parts)
  }

  /**
   * The idempotency key for a service that this attempt calls, the same in every attempt. It tells that
   * service neither our key nor the record's.
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

function kindOf(part: Part): number {
  if (part === undefined) return ABSENT
  return typeof part === 'string' ? TEXT : BYTES
}

/** Kind and length, then the part. Text is UTF-16, because UTF-8 makes one of all lone surrogates. */
function encode(message: Buffer, at: number, part: Part): number {
  const bytes = sizeOf(part) - MARK_BYTES
  const start = at + MARK_BYTES
  message[at] = kindOf(part)
  message.writeUIntBE(bytes, at + 1, MARK_BYTES - 1)
  if (typeof part === 'string') message.write(part, start, 'utf16le')
  else if (part !== undefined) message.set(part, start)
  return start + bytes
}
