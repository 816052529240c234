// What is known of a request before anything is looked up: whether it takes part, and under which key.

import type { Runtime } from '../flight/runtime.ts'
import type { RequestView } from '../ports/exchange.ts'
import { admit, type Bypass } from './admit.ts'
import type { CacheConfig } from './cache-config.ts'
import { cacheKey } from './key.ts'

export interface Begun {
  readonly type: 'begun'
  /** Why it does not take part; then it has no key. */
  readonly refused: Bypass | { readonly fwd: 'bypass'; readonly reason: 'closed' } | undefined
  /** Without what earlier answers are known to vary by. */
  readonly plainKey: string
}

const CLOSED = { fwd: 'bypass', reason: 'closed' } as const

/** Throws what the user's `key`, `identity` or `bypass` threw. */
export function begin<Native>(
  rt: Runtime,
  config: CacheConfig<Native>,
  request: RequestView,
  native: Native,
): Begun {
  const refused = rt.closed ? CLOSED : admit(request, native, config)
  const plainKey = refused === undefined ? cacheKey(request, native, config, []) : ''
  return { type: 'begun', refused, plainKey }
}
