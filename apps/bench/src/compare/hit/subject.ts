// A row of the hit table: a server that responds with the product.
import type { RequestListener } from 'node:http'

export interface Subject {
  readonly id: string
  /** Its name in the table. */
  readonly name: string
  /** Packages whose versions the page names. */
  readonly packages: readonly string[]
  readonly kind: 'floor' | 'uncached' | 'ours' | 'peer' | 'reference'
  /** Id of the row whose rate it is divided by. */
  readonly floor?: string
  /** The module in `servers/`. Default: its id. */
  readonly server?: string
  /** Every request is for a new product, so every request is a miss. */
  readonly isEachNew?: boolean
  /** Entries are only in a Redis that is started for this row. */
  readonly isOverRedis?: boolean
  /** Returns the reason why the server cannot run here. Undefined: it can. */
  readonly isMissing?: () => string | undefined
}

/**
 * The function that a handler calls for the product. Its calls are counted, because a hit must not
 * call it.
 */
export type Origin = () => object

/** The exports of `servers/<id>.ts`. */
export interface ServerModule {
  readonly listener: (origin: Origin, redisUrl: string) => RequestListener
}
