// Recently hit keys, with the names of their records. To join and hash a name again takes a third of
// the time of a hit in memory.

import { ownText, Recent } from '../recent.ts'

const MOST_KEYS = 4_096
/** Bounds the memory: callers choose the length of keys. */
const LONGEST_KEY = 200

export class RecentKeys {
  /** What stands before each key: the name of a cache, or nothing. */
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
