// The cases of docs/http-cases.md that any framework can show, on each of them: one contract.

import { describe } from 'vitest'
import { frameworks } from './harness/apps.ts'
import { codingCases } from './http-contract/codings.ts'
import { conditionCases } from './http-contract/conditions.ts'
import { freshnessCases } from './http-contract/freshness.ts'
import { keyCases } from './http-contract/keys.ts'
import { layerCases } from './http-contract/layers.ts'
import { purgeCases } from './http-contract/purges.ts'
import { rangeCases } from './http-contract/ranges.ts'
import { refreshCases } from './http-contract/refresh.ts'
import { sharingCases } from './http-contract/sharing.ts'
import { strictCases } from './http-contract/strict.ts'
import { wireCases } from './http-contract/wire.ts'

describe.each(frameworks)('the cache on $name', (framework) => {
  describe('compressed forms', () => codingCases(framework))
  describe('conditions', () => conditionCases(framework))
  describe('freshness', () => freshnessCases(framework))
  describe('keys', () => keyCases(framework))
  describe('layers in front', () => layerCases(framework))
  describe('purges', () => purgeCases(framework))
  describe('ranges', () => rangeCases(framework))
  describe('refreshes', () => refreshCases(framework))
  describe('those who wait', () => sharingCases(framework))
  describe('the strict preset', () => strictCases(framework))
  describe('the wire', () => wireCases(framework))
})
