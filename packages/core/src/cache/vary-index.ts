// An index of the `Vary` fields of URLs, learned from earlier responses (RFC 9111 §4.1). The first
// response of a URL is stored under the plain key, which has no `Vary` fields. If a request does
// not match that response, its key also has the values of the `Vary` fields. A process learns these
// fields when a lookup finds an entry of another variant. From then on, it needs only one lookup
// for each request.

import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { HeldEntry, StoredResponse } from '../entry/entry.ts'
import { selectFields } from '../http/vary.ts'
import type { RequestView } from '../ports/exchange.ts'
import type { Runtime } from '../runtime.ts'

/** Limit of URLs in the index. A URL that was evicted costs one more lookup. */
const MOST_URLS = 10_000
/** Longer keys are hashed. */
const LONGEST_PLAIN = 200

interface Learned {
  /** Names of the `Vary` fields. */
  readonly names: readonly string[]
  /** Digest of the `Vary` names and values that select the response under the plain key. */
  readonly plain: string
  /** The times of that response, its provenance, and the number of L1's last purge when found. */
  readonly staleAt: number
  readonly until: number
  readonly provenance: StoredResponse['provenance']
  readonly since: number
  /** Whether that response is gone. */
  isOutdated?: boolean
}

export class VaryIndex {
  readonly #learned = new LRUCache<string, Learned>({ max: MOST_URLS })

  /** The names of the request headers to add to the plain key for this request. */
  namesFor(plainKey: string, headers: RequestView['headers']): readonly string[] {
    const learned = this.#learned.get(indexKey(plainKey))
    if (learned === undefined || learned.isOutdated) return NONE
    const selection = selectFields(learned.names, headers)
    return digest(selection) === learned.plain ? NONE : learned.names
  }

  /**
   * Learns from an entry that the request does not match. `names` are the `Vary` fields in the key
   * of the lookup that found the entry.
   */
  learn(rt: Runtime, plainKey: string, names: readonly string[], held: HeldEntry): void {
    const { entry: found, staleAt, revalidateUntil: until } = held
    if (found.type !== 'response') return
    const url = indexKey(plainKey)
    const foundNames = found.vary.map(([name]) => name)
    const before = this.#learned.get(url)
    if (names.length > 0 && before !== undefined) {
      const all = [...new Set([...before.names, ...foundNames])].sort()
      this.#learned.set(url, { ...before, names: all })
    } else {
      const { vary, provenance } = found
      const since = rt.l1.sequence
      const plain = digest(vary)
      this.#learned.set(url, { names: foundNames, plain, staleAt, until, provenance, since })
    }
  }

  /**
   * Marks the URL as outdated if the response under its plain key was purged or has expired, and
   * returns whether it was. The next response under that key may be of any selection. So all
   * processes look there first, also those that never learned the URL. Otherwise they would fill
   * two keys for one selection.
   */
  isOutdated({ l1, marks, clock }: Runtime, plainKey: string): boolean {
    const learned = this.#learned.get(indexKey(plainKey))
    if (learned === undefined) return false
    const { staleAt, until, provenance, since } = learned
    const verdict = marks.judge(provenance)
    // After a soft purge, its stale window begins at the purge.
    const earlierMs = typeof verdict === 'number' ? Math.max(staleAt - verdict, 0) : 0
    const isGone = clock.now() >= until - earlierMs || l1.wasPurgedSince(plainKey, since)
    learned.isOutdated = isGone || verdict === 'purged'
    return learned.isOutdated
  }

  /** The names that were learned from a response that is gone. */
  formerNames(plainKey: string): readonly string[] {
    const learned = this.#learned.get(indexKey(plainKey))
    return learned?.isOutdated ? learned.names : NONE
  }
}

const NONE: readonly string[] = []

/** Values may be long, and a digest needs less memory. */
function digest(selection: StoredResponse['vary']): string {
  return hash('sha256', JSON.stringify(selection), 'base64url')
}

function indexKey(key: string): string {
  return key.length <= LONGEST_PLAIN ? key : `#${hash('sha256', key, 'base64url')}`
}
