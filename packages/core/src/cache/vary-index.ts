// Which request headers choose among the answers of a URL, as earlier answers said (RFC 9111 §4.1).
// The first answer lives under the plain key and names them; requests that it does not match go to a
// key of their own. A process learns the names once, by finding an answer that is not for it, and from
// then on goes to the right key directly: one look-up, also for what varies.

import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { StoredResponse } from '../entry/entry.ts'
import { selectFields } from '../http/vary.ts'
import type { RequestView } from '../ports/exchange.ts'

/** URLs whose names are remembered. Forgetting one costs one extra look-up. */
const MOST_URLS = 10_000
/** Longer URLs are hashed. */
const LONGEST_PLAIN = 200

interface Learned {
  readonly names: readonly string[]
  /** The selection whose answer is under the plain key. */
  readonly home: string
}

export class VaryIndex {
  readonly #learned = new LRUCache<string, Learned>({ max: MOST_URLS })

  /** Names of the header fields to add to the key of this request. */
  namesFor(plainKey: string, headers: RequestView['headers']): readonly string[] {
    if (this.#learned.size === 0) return NONE
    const learned = this.#learned.get(short(plainKey))
    if (learned === undefined) return NONE
    return selectionOf(learned.names, headers) === learned.home ? NONE : learned.names
  }

  /** An answer was found that is for other requests. `names` are what was in the key that found it. */
  learn(plainKey: string, names: readonly string[], found: StoredResponse): void {
    const url = short(plainKey)
    const foundNames = found.vary.map(([name]) => name)
    const before = this.#learned.get(url)
    if (names.length > 0 && before !== undefined) {
      const all = [...new Set([...before.names, ...foundNames])].sort()
      this.#learned.set(url, { names: all, home: before.home })
    } else {
      this.#learned.set(url, { names: foundNames, home: digest(found.vary) })
    }
  }
}

const NONE: readonly string[] = []

/** Hashed: header values are as long as a client likes. */
function selectionOf(names: readonly string[], headers: RequestView['headers']): string {
  return digest(selectFields(names, headers))
}

function digest(selection: StoredResponse['vary']): string {
  return sha256(JSON.stringify(selection))
}

function short(key: string): string {
  return key.length <= LONGEST_PLAIN ? key : `#${sha256(key)}`
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
