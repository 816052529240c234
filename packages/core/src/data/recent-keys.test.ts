import { expect, it } from 'vitest'
import { createStampede } from '../index.ts'
import { RecentKeys } from './get-or-set.ts'

it('recent keys are remembered unless they are long', () => {
  const recent = new RecentKeys('cache', 'rates')
  for (const key of ['k', 'k'.repeat(200), 'k'.repeat(201)]) recent.remember(key, `name of ${key}`)
  expect(recent.get('k')).toBe('name of k')
  expect(recent.get('k'.repeat(200))).toBeDefined()
  expect(recent.get('k'.repeat(201))).toBeUndefined()
})

it('recent keys of two caches stay separate, also after hits', async () => {
  const stampede = createStampede()
  const options = { ttlMs: 60_000 }
  const [a, b] = [stampede.cache('a', options), stampede.cache('b', options)]
  for (let i = 0; i < 3; i++) {
    expect(await stampede.getOrSet('k', () => 'none', options)).toBe('none')
    expect(await a.getOrSet('k', () => 'a')).toBe('a')
    expect(await b.getOrSet('k', () => 'b')).toBe('b')
  }
  await a.delete('k')
  expect(await a.getOrSet('k', () => 'new')).toBe('new')
  await stampede.close()
})
