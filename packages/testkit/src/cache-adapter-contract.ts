// The contract of a caching adapter, as a suite: the promises to clients, handlers and layers in
// every framework.
import { describe } from 'vitest'
import type { CacheAdapter } from './cache-contract/adapter.ts'
import { conditionCases } from './cache-contract/conditions.ts'
import { countingCases } from './cache-contract/counting.ts'
import { freshnessCases } from './cache-contract/freshness.ts'
import { journeyCases } from './cache-contract/journey.ts'
import { keyCases } from './cache-contract/keys.ts'
import { lateCookieCases } from './cache-contract/late-cookies.ts'
import { fieldCases, layerCases } from './cache-contract/layers.ts'
import { lostLineCases } from './cache-contract/lost-lines.ts'
import { purgeCases } from './cache-contract/purges.ts'
import { rangeCases } from './cache-contract/ranges.ts'
import { refreshCases } from './cache-contract/refresh.ts'
import { sharingCases } from './cache-contract/sharing.ts'
import { silenceCases } from './cache-contract/silence.ts'
import { strictCases } from './cache-contract/strict.ts'
import { turnCases } from './cache-contract/turns.ts'
import { type Volume, volumeCases } from './cache-contract/volume.ts'
import { wireCases } from './cache-contract/wire.ts'

const USUAL: Volume = { queries: 400, requests: 2_000, keys: 300 }

/** Defines the tests of an adapter for caching, in Vitest. */
export function cacheAdapterContract(adapter: CacheAdapter): void {
  describe(`the cache on ${adapter.name}`, () => {
    describe('in the course of a request', () => journeyCases(adapter))
    describe('with conditional requests', () => conditionCases(adapter))
    describe('stats()', () => countingCases(adapter))
    describe('with freshness fields', () => freshnessCases(adapter))
    describe('with cache keys and variants', () => keyCases(adapter))
    describe('with header lines that Node drops', () => lostLineCases(adapter))
    describe('middlewares in front of the cache', () => layerCases(adapter))
    describe('a large body that is there at once', () => turnCases(adapter))
    describe('Cache-Status', () => lateCookieCases(adapter))
    describe('hits after a middleware in front set fields', () => fieldCases(adapter))
    describe('purges', () => purgeCases(adapter))
    describe('with range requests', () => rangeCases(adapter))
    describe('a refresh', () => refreshCases(adapter))
    describe('concurrent requests', () => sharingCases(adapter))
    describe('a cache', () => silenceCases(adapter))
    describe('with and without the strict preset', () => strictCases(adapter))
    describe('on the wire', () => wireCases(adapter))
    describe('under a flood of requests', () => volumeCases(adapter, USUAL))
  })
}
