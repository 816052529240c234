// An index of the `Vary` fields of URLs, learned from earlier responses (RFC 9111 §4.1). The first
// response of a URL is stored under the plain key, which has no `Vary` fields. If a request does
// not match that response, its key also has the values of the `Vary` fields. A process learns these
// fields when a lookup finds an entry of another variant. From then on, it needs only one lookup
// for each request.

import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { StoredResponse } from '../entry/entry.ts'
import { selectFields } from '../http/vary.ts'
import type { RequestView } from '../ports/exchange.ts'

/** Limit of URLs in the index. A URL that was evicted costs one more lookup. */
const MOST_URLS = 10_000
/** Longer keys are hashed. */
const LONGEST_PLAIN = 200

interface Learned {
  /** Names of the `Vary` fields. */
  readonly names: readonly string[]
  /** Digest of the `Vary` names and values that select the response under the plain key. */
  readonly plain: string
}

export class VaryIndex {
  readonly #learned = new LRUCache<string, Learned>({ max: MOST_URLS })

  /** The names of the request headers to add to the plain key for this request. */
  namesFor(plainKey: string, headers: RequestView['headers']): readonly string[] {
    if (this.#learned.size === 0) return NONE
    const learned = this.#learned.get(indexKey(plainKey))
    if (learned === undefined) return NONE
    return selectionOf(learned.names, headers) === learned.plain ? NONE : learned.names
  }

  /**
   * Learns from an entry that the request does not match. `names` are the `Vary` fields in the key
   * of the lookup that found the entry.
   */
  learn(plainKey: string, names: readonly string[], found: StoredResponse): void {
    const url = indexKey(plainKey)
    const foundNames = found.vary.map(([name]) => name)
    const before = this.#learned.get(url)
    if (names.length > 0 && before !== undefined) {
      const all = [...new Set([...before.names, ...foundNames])].sort()
      this.#learned.set(url, { names: all, plain: before.plain })
    } else {
      this.#learned.set(url, { names: foundNames, plain: digest(found.vary) })
    }
  }
}

const NONE: readonly string[] = []

/** A digest of the values of these headers. Values may be long, and a digest needs less memory. */
function selectionOf(names: readonly string[], headers: RequestView['headers']): string {
  return digest(selectFields(names, headers))
}

function digest(selection: StoredResponse['vary']): string {
  return sha256(JSON.stringify(selection))
}

function indexKey(key: string): string {
  return key.length <= LONGEST_PLAIN ? key : `#${sha256(key)}`
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
