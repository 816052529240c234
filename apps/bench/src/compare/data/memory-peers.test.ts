import { describe, expect, it } from 'vitest'
import { product } from '../lib/product.ts'
import { memoryPeers } from './memory-peers.ts'

describe('every cache for data of the benchmark', () => {
  it.each(memoryPeers)('$id loads a key once and returns the loaded value', async ({ create }) => {
    const loaded: string[] = []
    const get = await create((key) => {
      loaded.push(key)
      return product
    }, '')
    for (const key of ['a', 'b', 'a', 'b', 'a']) expect(await get(key)).toEqual(product)
    expect(loaded).toEqual(['a', 'b'])
  })
})
