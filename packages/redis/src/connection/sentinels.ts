// The master that counts if Sentinels disagree. Each fail-over gives its configuration a greater
// epoch, and in the end all Sentinels accept the greatest. After a partition, a Sentinel may still
// name the former master, with a smaller epoch.

import type { Address } from './node-redis-client.ts'

/** The master that one Sentinel named. */
export interface Named {
  readonly master: Address
  /** The `config-epoch` of SENTINEL MASTER. -1: unknown, for example refused. */
  readonly epoch: number
}

export class Replies {
  readonly #all: Named[] = []

  add(named: Named): void {
    this.#all.push(named)
  }

  /** Names the master of the greatest epoch. If the epochs are equal, that of most Sentinels. */
  get newest(): Named | undefined {
    const epoch = this.#greatestEpoch
    const counts = new Map<string, number>()
    let newest: Named | undefined
    let most = 0
    for (const named of this.#all) {
      if (named.epoch < epoch) continue
      const text = textOf(named.master)
      const count = (counts.get(text) ?? 0) + 1
      counts.set(text, count)
      if (count > most) [newest, most] = [named, count]
    }
    return newest
  }

  /**
   * Whether no further reply is needed. A fail-over needs most Sentinels, so one of any majority
   * knows its epoch.
   */
  isEnough(sentinels: number): boolean {
    const epoch = this.#greatestEpoch
    const newest = this.#all.filter((named) => named.epoch === epoch)
    const places = new Set(newest.map(({ master }) => textOf(master)))
    return 2 * this.#all.length > sentinels && places.size === 1
  }

  get #greatestEpoch(): number {
    return Math.max(...this.#all.map(({ epoch }) => epoch))
  }
}

/** `reply` is that of SENTINEL MASTER: names and values by turns, or with RESP3 a map. */
export function epochIn(reply: unknown): number {
  const pairs = Array.isArray(reply) ? reply : Object.entries(reply ?? {}).flat()
  const fields = pairs.map(String)
  const at = fields.indexOf('config-epoch')
  const epoch = at === -1 ? Number.NaN : Number(fields[at + 1])
  return Number.isInteger(epoch) ? epoch : -1
}

export function textOf({ host, port }: Address): string {
  return `${host}:${port}`
}
