import { createStampede, memoryStore, type Stampede } from '@stampede/core'
import { namedKeys } from '@stampede/core/operator'
import { ManualClock } from '@stampede/core/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { entryFacts } from './entry-facts.ts'

describe('entryFacts', () => {
  let stampede: Stampede
  const store = { current: memoryStore() }
  beforeEach(() => {
    store.current = memoryStore()
    stampede = createStampede({ store: store.current, clock: new ManualClock() })
  })
  afterEach(() => stampede.close())

  const factsOf = async (name: string) => {
    const info = await store.current.operator.inspect(namedKeys(name)[0])
    return info && entryFacts(stampede, info)
  }

  it('has the value and tags of an entry', async () => {
    await stampede.getOrSet('k', () => ({ a: 1 }), { ttlMs: 1_000, tags: ['t'] })
    const facts = await factsOf('k')
    expect(facts).toMatchObject({ type: 'value', encoding: 'json', tags: ['t'], purges: [] })
    expect(String(Buffer.from(facts?.body ?? []))).toBe('{"a":1}')
  })

  it('has the purges that cover the entry', async () => {
    await stampede.getOrSet('k', () => 1, { ttlMs: 1_000, tags: ['t', 'u'] })
    await stampede.purge({ tag: 'u' }, { soft: true })
    await stampede.purge({ tag: 'other' })
    await stampede.purge({ all: true })
    expect((await factsOf('k'))?.purges).toEqual([
      { by: 'tag', subject: 'u', soft: true, at: expect.any(Number) },
      { by: 'all', soft: false, at: expect.any(Number) },
    ])
  })

  it('is undefined without an entry', async () => {
    expect(await entryFacts(stampede, { key: 'd:=none' })).toBeUndefined()
    const frame = Buffer.from('no frame')
    expect(await entryFacts(stampede, { key: 'd:=none', frame })).toBeUndefined()
  })
})
