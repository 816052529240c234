// The names of things in a store, and what requests are compared by. Keyed with the secret, so that nobody
// who reads the store learns a client's key or can try out bodies; each use has a domain of its own, and
// every part its length, so that no part runs into the next.

import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'

type Part = string | Uint8Array | undefined

/** Changes with the layout below: what was hashed before is then another record. */
const VERSION = 'stampede:idempotency:1'

const ABSENT = 0
const TEXT = 1
const BYTES = 2

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
    const hmac = createHmac('sha256', this.#secret)
    for (const part of [VERSION, use, ...parts]) {
      const bytes = bytesOf(part)
      const mark = Buffer.alloc(7)
      mark[0] = kindOf(part)
      mark.writeUIntBE(bytes.byteLength, 1, 6)
      hmac.update(mark).update(bytes)
    }
    return hmac.digest('base64url')
  }
}

/** UTF-16, because UTF-8 makes one of all lone surrogates. */
function bytesOf(part: Part): Uint8Array {
  if (part === undefined) return NOTHING
  return typeof part === 'string' ? Buffer.from(part, 'utf16le') : part
}

const NOTHING = new Uint8Array()

function kindOf(part: Part): number {
  if (part === undefined) return ABSENT
  return typeof part === 'string' ? TEXT : BYTES
}
