// The type of the options of stampedeCache after all checks, with defaults for absent options.

import type { TagsRule } from '../tags.ts'

export const CACHE_FUNCTION = 'stampedeCache'

/** The options of `CacheRules`, checked and complete. */
export interface CacheConfig<Native = unknown> {
  readonly ttlMs: number | undefined
  readonly overrideHeaders: boolean
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  readonly keepMs: number
  readonly negativeTtlMs: number | undefined
  readonly jitter: number
  readonly key: ((request: Native) => string) | undefined
  readonly query: { readonly only: readonly string[] } | { readonly ignore: readonly string[] }
  /** Field names, lower-case and sorted. */
  readonly vary: readonly string[]
  readonly identity: ((request: Native) => string) | undefined
  /** Field names are lower-case and sorted. */
  readonly authorization: 'bypass' | 'ignore' | { readonly ignore: readonly string[] }
  readonly cookies: 'bypass' | 'ignore' | { readonly key: readonly string[] }
  /** Field names, lower-case. The first valid one counts. `OWN_FIELD` is always the first. */
  readonly targetedFields: readonly string[]
  readonly tags: TagsRule
  readonly statuses: ReadonlySet<number>
  readonly mintEtag: boolean
  readonly requestDirectives: 'ignore' | 'respect'
  readonly maxBodyBytes: number
  readonly leaseMs: number
  readonly waitMs: number
  readonly afterWait: 'origin' | 'unavailable'
  readonly originTimeoutMs: number
  readonly softTimeoutMs: number | undefined
  readonly revalidate: 'background' | 'foreground'
  readonly invalidateOn: 'unsafe' | 'never'
  /** Tags that an unsafe request purges in addition to its URL. */
  readonly invalidatedTags: TagsRule
  readonly bypass: ((request: Native) => boolean) | undefined
  /** Name of the cache in `Cache-Status`. Undefined: no such field is sent. */
  readonly cacheName: string | undefined
  readonly audit: boolean
}
