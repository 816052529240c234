// The facts behind the checks of the storm: versions of pages, acknowledged purges, orders and
// their effects.

/** The documented bound: how long a purged entry may be served after the purge resolved. */
export const BOUND_MS = 5_000

/** The fault of the moment, as weather.ts reports it. */
export const at = (): number => Math.round(performance.now())

interface Purged {
  readonly resolvedAt: number
  readonly version: number
}

export interface Late {
  readonly path: string
  readonly version: number
  /** Time since the purge of a newer version had resolved. */
  readonly afterMs: number
}

/** Versions of pages. Each response names its version. */
export class Pages {
  readonly #versions = new Map<string, number>()
  /** Oldest first. */
  readonly #purges = new Map<string, Purged[]>()
  /** The longest time for which a response outlived a purge. */
  longestOldMs = 0
  readonly late: Late[] = []
  purged = 0

  version(path: string): number {
    return this.#versions.get(path) ?? 1
  }

  change(paths: readonly string[]): void {
    for (const path of paths) this.#versions.set(path, this.version(path) + 1)
  }

  /**
   * The current versions of these pages. Pass them back once a purge that began after this has
   * resolved.
   */
  now(paths: readonly string[]): () => void {
    const versions = paths.map((path) => [path, this.version(path)] as const)
    return () => {
      const resolvedAt = performance.now()
      this.purged += 1
      for (const [path, version] of versions) {
        const known = this.#purges.get(path) ?? []
        known.push({ resolvedAt, version })
        this.#purges.set(path, known)
      }
    }
  }

  /** Checks the response to a request that was sent at this moment. */
  heard(path: string, version: number, sentAt: number): void {
    for (const purge of this.#purges.get(path) ?? []) {
      const afterMs = sentAt - purge.resolvedAt
      if (afterMs < 0 || version >= purge.version) continue
      this.longestOldMs = Math.max(this.longestOldMs, afterMs)
      if (afterMs > BOUND_MS) this.late.push({ path, version, afterMs })
      return
    }
  }
}

export interface Order {
  readonly path: string
  readonly key: string
  readonly begunAt: number
  /** When the last response to it came. Until then Redis may have been used for it. */
  endedAt: number
  answeredAt: number | undefined
  effects: number
  readonly bodies: Set<string>
  readonly statuses: Map<number, number>
  /** The history of the order, for the report of a broken rule. */
  readonly story: string[]
}

/** Orders run at the origin. The number of runs is what counts. */
export class Orders {
  readonly all = new Map<string, Order>()
  /** Moments at which Redis lost acknowledged writes. */
  readonly #losses: Array<{ readonly from: number; readonly until: number }> = []

  begin(): Order {
    const n = this.all.size + 1
    const begunAt = performance.now()
    const counted = {
      answeredAt: undefined,
      effects: 0,
      bodies: new Set<string>(),
      statuses: new Map<number, number>(),
      story: [],
    }
    const order = {
      path: `/orders/${n}`,
      key: `order-${n}`,
      begunAt,
      endedAt: begunAt,
      ...counted,
    }
    this.all.set(order.path, order)
    return order
  }

  lost(from: number, until: number): void {
    this.#losses.push({ from, until })
  }

  /** Nothing is promised for these: they were under way when Redis lost acknowledged records. */
  isExcluded({ begunAt, endedAt }: Order): boolean {
    return this.#losses.some(({ from, until }) => begunAt < until && endedAt > from)
  }
}
