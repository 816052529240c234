// What is measured: a server that answers with the product.
import type { RequestListener } from 'node:http'

export interface Subject {
  readonly id: string
  /** Its name in the table. */
  readonly name: string
  /** What it is made of, for its versions. */
  readonly packages: readonly string[]
  readonly kind: 'floor' | 'uncached' | 'ours' | 'peer' | 'reference'
  /** The subject whose rate it is divided by. */
  readonly floor?: string
  /** The module in `servers/`, if it is not that of its id. */
  readonly server?: string
  /** Every request is for a product of its own: what a miss costs. */
  readonly isEachNew?: boolean
  /** Its entries are in a Redis alone, which is started for it. */
  readonly isOverRedis?: boolean
  /** Why it cannot be run here, if so. */
  readonly isMissing?: () => string | undefined
}

/** What a handler calls for the product: counted, as a hit must not. */
export type Origin = () => object

/** What `servers/<id>.ts` exports. */
export interface ServerModule {
  readonly listener: (origin: Origin, redisUrl: string) => RequestListener
}
