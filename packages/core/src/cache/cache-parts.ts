// The parts of one stampedeCache that its requests share.

import type { Framework } from '../ports/exchange.ts'
import type { Runtime } from '../runtime.ts'
import type { CacheConfig } from './cache-options.ts'
import type { FirstRequests } from './first-requests.ts'
import type { VaryIndex } from './vary-index.ts'

/** The parts of one stampedeCache that its requests share. */
export interface CacheParts<Native = never> {
  readonly rt: Runtime
  readonly config: CacheConfig<Native>
  readonly framework: Framework<Native>
  /** Created with the first `Vary` field that a request does not match. */
  index: VaryIndex | undefined
  readonly first: FirstRequests
}
