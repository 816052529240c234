import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Database, openDatabase } from './database.ts'
import { changeProduct, findProduct, listProducts } from './products.ts'
import { CATEGORIES, SEED } from './seed.ts'

let database: Database

beforeAll(async () => {
  database = await openDatabase({ latencyMs: 20, connections: 2 })
})

afterAll(() => database.close())

describe('listProducts', () => {
  it('lists all twenty-four products by number', async () => {
    expect(await listProducts(database, {})).toEqual(SEED)
    expect(SEED).toHaveLength(24)
  })

  it('sorts by price and by name', async () => {
    const byPrice = (await listProducts(database, { sort: 'price' })).map((p) => p.priceCents)
    expect(byPrice).toEqual([...byPrice].sort((a, b) => a - b))
    const [first] = await listProducts(database, { sort: 'name' })
    expect(first?.name).toBe('Alishan High Mountain')
  })

  it('finds four products in each category', async () => {
    for (const category of CATEGORIES) {
      const products = await listProducts(database, { category })
      expect(products.map((product) => product.category)).toEqual(Array(4).fill(category))
    }
  })

  it('treats a category as a value and never as SQL', async () => {
    expect(await listProducts(database, { category: "green' or true --" })).toEqual([])
  })
})

describe('findProduct', () => {
  it('finds a product by number, and nothing for an unknown number', async () => {
    expect(await findProduct(database, 7)).toEqual(SEED[6])
    expect(await findProduct(database, 25)).toBeUndefined()
  })
})

describe('changeProduct', () => {
  it('changes the given fields and keeps the others', async () => {
    const changed = await changeProduct(database, 3, { priceCents: 999 })
    expect(changed).toEqual({ ...SEED[2], priceCents: 999 })
    expect(await changeProduct(database, 3, { stock: 0 })).toMatchObject({
      priceCents: 999,
      stock: 0,
    })
    expect(await changeProduct(database, 25, { stock: 1 })).toBeUndefined()
  })
})

describe('openDatabase', () => {
  it('lets queries wait for a connection, and delays each', async () => {
    const startedAt = performance.now()
    await Promise.all([1, 2, 3, 4, 5, 6].map((id) => findProduct(database, id)))
    // Six queries of 20 ms on two connections take three rounds. Timers may fire a millisecond
    // early.
    expect(performance.now() - startedAt).toBeGreaterThan(57)
  })

  it('works on after a query that fails', async () => {
    await expect(database.query('select nothing_like_it', [])).rejects.toThrow('nothing_like_it')
    expect(await findProduct(database, 1)).toEqual(SEED[0])
  })

  it('finishes running queries when it closes, and rejects queued ones', async () => {
    const outcomes = Promise.allSettled([1, 2, 4, 5].map((id) => findProduct(database, id)))
    await database.close()
    expect((await outcomes).map(({ status }) => status)).toEqual([
      'fulfilled',
      'fulfilled',
      'rejected',
      'rejected',
    ])
    await expect(findProduct(database, 1)).rejects.toThrow('the database is closed')
  })
})
