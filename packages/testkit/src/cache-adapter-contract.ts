// The contract of a caching adapter, as a suite: the promises to clients, handlers and layers in
// every framework.
import { describe } from 'vitest'
import type { CacheAdapter } from './cache-contract/adapter.ts'
import { codingCases } from './cache-contract/codings.ts'
import { conditionCases } from './cache-contract/conditions.ts'
import { countingCases } from './cache-contract/counting.ts'
import { freshnessCases } from './cache-contract/freshness.ts'
import { journeyCases } from './cache-contract/journey.ts'
import { keyCases } from './cache-contract/keys.ts'
import { layerCases } from './cache-contract/layers.ts'
import { liveCases } from './cache-contract/live.ts'
import { purgeCases } from './cache-contract/purges.ts'
import { rangeCases } from './cache-contract/ranges.ts'
import { refreshCases } from './cache-contract/refresh.ts'
import { sharingCases } from './cache-contract/sharing.ts'
import { strictCases } from './cache-contract/strict.ts'
import { type Volume, volumeCases } from './cache-contract/volume.ts'
import { wireCases } from './cache-contract/wire.ts'

const USUAL: Volume = { queries: 400, requests: 2_000, keys: 300 }

export function cacheAdapterContract(adapter: CacheAdapter): void {
  describe(`the cache on ${adapter.name}`, () => {
    describe('a cached request', () => journeyCases(adapter))
    describe('compressed forms', () => codingCases(adapter))
    describe('conditions', () => conditionCases(adapter))
    describe('stats()', () => countingCases(adapter))
    describe('freshness', () => freshnessCases(adapter))
    describe('keys and variants', () => keyCases(adapter))
    describe('layers in front of the cache', () => layerCases(adapter))
    describe('purges', () => purgeCases(adapter))
    describe('ranges', () => rangeCases(adapter))
    describe('refreshes', () => refreshCases(adapter))
    describe('concurrent requests', () => sharingCases(adapter))
    describe('a streamed response', () => liveCases(adapter))
    describe('the strict preset', () => strictCases(adapter))
    describe('a response on the wire', () => wireCases(adapter))
    describe('the volume cases', () => volumeCases(adapter, USUAL))
  })
}
