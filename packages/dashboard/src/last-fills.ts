// The reason of the last fill of each key that this process filled recently.

import type { Stampede } from '@stampede/core'

const MOST_KEYS = 2_000

export interface LastFill {
  /** Wall-clock time, in ms since 1970. */
  readonly at: number
  /** The `reason` of the event `lease.granted`. */
  readonly reason: string
}

export class LastFills {
  readonly #fills = new Map<string, LastFill>()
  readonly stop: () => void

  constructor(stampede: Stampede) {
    this.stop = stampede.on('lease.granted', ({ internalKey, reason }) => {
      this.#fills.delete(internalKey)
      this.#fills.set(internalKey, { at: Date.now(), reason })
      if (this.#fills.size <= MOST_KEYS) return
      for (const oldest of this.#fills.keys()) {
        this.#fills.delete(oldest)
        break
      }
    })
  }

  of(internalKey: string): LastFill | undefined {
    return this.#fills.get(internalKey)
  }
}
