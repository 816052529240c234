// Which request headers choose among the answers of a URL, as earlier answers said (RFC 9111 §4.1).
// The first answer lives under the plain key and names them; requests that it does not match go to a
// key of their own. A process learns the names once, by finding an answer that is not for it, and from
// then on goes to the right key directly: one look-up, also for what varies.

import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { StoredResponse } from '../entry/entry.ts'
import { selectFields } from '../http/vary.ts'
import type { RequestView } from '../ports/exchange.ts'

/** Selections told apart per URL; a client that makes up more goes to the origin. */
const MOST_VARIANTS = 64
/** One that nobody has asked for in so long makes room for another: who makes some up shuts out others for a while only. */
const IDLE_MS = 60_000
/** URLs whose names are remembered. Forgetting one costs one extra look-up. */
const MOST_URLS = 10_000
/** Selections of all URLs together. */
const MOST_SELECTIONS = 100_000
/** Longer URLs are hashed. */
const LONGEST_PLAIN = 200

interface Learned {
  readonly names: readonly string[]
  /** The selection whose answer is under the plain key. */
  readonly home: string
  /** When each was last asked for. */
  readonly variants: Map<string, number>
}

export class VaryIndex {
  readonly #learned = new LRUCache<string, Learned>({
    max: MOST_URLS,
    maxSize: MOST_SELECTIONS,
    sizeCalculation: ({ variants }) => 1 + variants.size,
  })

  /** Header names to add to the key of a request at `now`; `full`: one variant too many. */
  namesFor(
    plainKey: string,
    headers: RequestView['headers'],
    now: number,
  ): readonly string[] | 'full' {
    if (this.#learned.size === 0) return NONE
    const url = short(plainKey)
    const learned = this.#learned.get(url)
    if (learned === undefined) return NONE
    const selection = selectionOf(learned.names, headers)
    if (selection === learned.home) return NONE
    const { variants, names } = learned
    const isNew = !variants.has(selection)
    if (isNew && !hasRoom(variants, now)) return 'full'
    variants.set(selection, now)
    // A copy: the LRU measures what it is given anew only if it is another object.
    if (isNew) this.#learned.set(url, { ...learned })
    return names
  }

  /** An answer was found that is for other requests. `names` are what was in the key that found it. */
  learn(plainKey: string, names: readonly string[], found: StoredResponse): void {
    const url = short(plainKey)
    const foundNames = found.vary.map(([name]) => name)
    const before = this.#learned.get(url)
    if (names.length > 0 && before !== undefined) {
      const all = [...new Set([...before.names, ...foundNames])].sort()
      this.#learned.set(url, { names: all, home: before.home, variants: new Map() })
    } else {
      const home = digest(found.vary)
      // Many that waited for one answer find this out at once; the variants they made up still count.
      if (before?.home === home && before.names.join() === foundNames.join()) return
      this.#learned.set(url, { names: foundNames, home, variants: new Map() })
    }
  }
}

function hasRoom(variants: Map<string, number>, now: number): boolean {
  if (variants.size < MOST_VARIANTS) return true
  for (const [selection, askedAt] of variants) {
    if (now - askedAt >= IDLE_MS) variants.delete(selection)
  }
  return variants.size < MOST_VARIANTS
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
