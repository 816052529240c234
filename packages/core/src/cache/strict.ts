// The preset `strict`: the options under which the cache follows all of RFC 9111 and RFC 9213. The
// page docs/conformance.md compares it with the defaults.

import type { CacheRules } from './cache-options.ts'

/**
 * Options for a cache that follows RFC 9111 and RFC 9213: `stampedeCache({ ...strict, stampede })`.
 *
 * - `requestDirectives: 'honour'`: clients may ask for newer responses (RFC 9111 §5.2.1). Any
 *   client can then reach the origin at will.
 * - `targetedFields`: `CDN-Cache-Control` takes precedence over `Cache-Control` (RFC 9213 §3.1).
 *
 * Do not add `overrideHeaders`, `ttlMs` or stale windows: they go beyond the RFCs.
 */
export const strict: Readonly<Required<Pick<CacheRules, 'requestDirectives' | 'targetedFields'>>> =
  Object.freeze({
    requestDirectives: 'honour',
    targetedFields: Object.freeze(['CDN-Cache-Control']),
  })
