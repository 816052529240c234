// Recently used keys, with their full keys. To build and hash a full key again would take a third
// of the time of a hit in memory.

import { ownText, Recent } from '../recent.ts'

const MOST_KEYS = 4_096
/** Longer keys are not kept, because they would take too much memory. */
const LONGEST_KEY = 200

export class RecentKeys {
  /** The prefix of each key: the name of a cache with a colon, or empty. */
  readonly prefix: string
  readonly #names = new Recent<string>(MOST_KEYS)

  constructor(prefix: string) {
    this.prefix = prefix
  }

  nameOf(key: string): string | undefined {
    return this.#names.get(key)
  }

  remember(key: string, name: string): void {
    if (key.length <= LONGEST_KEY) this.#names.set(ownText(key), name)
  }
}
