// The truth of the storm: versions of pages, acknowledged purges, orders and their effects.

/** As promised: how long what was purged may be answered, after the purge resolved. */
export const BOUND_MS = 5_000

/** Now, as the weather report says it. */
export const at = (): number => Math.round(performance.now())

interface Purged {
  readonly resolvedAt: number
  readonly version: number
}

export interface Late {
  readonly path: string
  readonly version: number
  /** Since the purge of a newer one had resolved. */
  readonly afterMs: number
}

/** Pages have versions; each answer names the one that it was made of. */
export class Pages {
  readonly #versions = new Map<string, number>()
  /** Oldest first. */
  readonly #purges = new Map<string, Purged[]>()
  /** The longest that an answer outlived a purge. */
  longestOldMs = 0
  readonly late: Late[] = []
  purged = 0

  version(path: string): number {
    return this.#versions.get(path) ?? 1
  }

  change(paths: readonly string[]): void {
    for (const path of paths) this.#versions.set(path, this.version(path) + 1)
  }

  /** What is true of these now; to be noted once a purge that began after this has resolved. */
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

  /** An answer to a request that was sent at this moment. */
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
  /** When the last answer to it came: until then Redis may have been asked. */
  endedAt: number
  answeredAt: number | undefined
  effects: number
  readonly bodies: Set<string>
  readonly statuses: Map<number, number>
  /** What happened to it, for whoever wants to know how a rule was broken. */
  readonly story: string[]
}

/** Orders are carried out by the origin; how often is what matters. */
export class Orders {
  readonly all = new Map<string, Order>()
  /** Moments in which Redis lost what it had acknowledged. */
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

  /** Of these nothing is promised: they were under way when Redis lost records that it had acknowledged. */
  isExcluded({ begunAt, endedAt }: Order): boolean {
    return this.#losses.some(({ from, until }) => begunAt < until && endedAt > from)
  }
}
