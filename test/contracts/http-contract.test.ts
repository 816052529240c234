// The cases of docs/http-cases.md that any framework can show, on each of them: one contract.

import { describe } from 'vitest'
import { frameworks } from '../harness/apps.ts'
import { codingCases } from './http/codings.ts'
import { conditionCases } from './http/conditions.ts'
import { freshnessCases } from './http/freshness.ts'
import { keyCases } from './http/keys.ts'
import { layerCases } from './http/layers.ts'
import { purgeCases } from './http/purges.ts'
import { rangeCases } from './http/ranges.ts'
import { refreshCases } from './http/refresh.ts'
import { sharingCases } from './http/sharing.ts'
import { strictCases } from './http/strict.ts'
import { wireCases } from './http/wire.ts'

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
