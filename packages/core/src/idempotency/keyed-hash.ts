// The names of things in a store, and what requests are compared by. Keyed with the secret, so that nobody
// who reads the store learns a client's key or can try out bodies; each use has a domain of its own, and
// every part its length, so that no part runs into the next.

import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'

type Part = string | Uint8Array | undefined

/** Changes with the layout below: what was hashed before is then another record. */
const VERSION = 'stampede:idempotency:1'

/** 0: absent. */
const TEXT = 1
const BYTES = 2
const MARK_BYTES = 7

/** HMAC-SHA256 as base64url: 43 characters. */
export class KeyedHash {
  readonly #secret: KeyObject

  constructor(secret: string) {
    this.#secret = createSecretKey(Buffer.from(secret))
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

  #hash(use: 'record' | 'fingerprint' | 'child', parts: readonly Part[]): string {
    const message = Buffer.concat([VERSION, use, ...parts].flatMap(encoded))
    return createHmac('sha256', this.#secret).update(message).digest('base64url')
  }
}

/** Kind and length, then the part. Text is UTF-16, because UTF-8 makes one of all lone surrogates. */
function encoded(part: Part): Uint8Array[] {
  const bytes = typeof part === 'string' ? Buffer.from(part, 'utf16le') : part
  const mark = Buffer.alloc(MARK_BYTES)
  if (bytes === undefined) return [mark]
  mark[0] = typeof part === 'string' ? TEXT : BYTES
  mark.writeUIntBE(bytes.byteLength, 1, MARK_BYTES - 1)
  return [mark, bytes]
}
