// Keys that recently had a hit, with the names of their records. Building and hashing such a name
// again would take a third of the time of a hit in memory.

import { detachedText, Recent } from '../recent.ts'

const MOST_KEYS = 4_096
/** Longer keys are not remembered, because callers choose their length. */
const LONGEST_KEY = 200

export class RecentKeys {
  /** Prefix of each key: the name of the cache and a colon, or empty. */
  readonly prefix: string
  readonly #names = new Recent<string>(MOST_KEYS)

  constructor(prefix: string) {
    this.prefix = prefix
  }

  nameOf(key: string): string | undefined {
    return this.#names.get(key)
  }

  remember(key: string, name: string): void {
    if (key.length <= LONGEST_KEY) this.#names.set(detachedText(key), name)
  }
}
