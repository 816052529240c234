import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Database, openDatabase } from './database.ts'
import { findOrder, listOrders, ordersSince, placeOrder, restock } from './orders.ts'
import { findProduct } from './products.ts'

let database: Database

beforeAll(async () => {
  database = await openDatabase({ latencyMs: 1 })
})

afterAll(() => database.close())

const order = (customer: string, more: object = {}) =>
  placeOrder(database, { customer, productId: 3, quantity: 1, request: undefined, ...more })
const stockOf = async (id: number) => (await findProduct(database, id))?.stock

describe('placeOrder', () => {
  it('takes the tins and writes the row, in one transaction', async () => {
    const stock = (await stockOf(3)) ?? 0
    const placed = await order('ada', { quantity: 4 })
    expect(placed).toMatchObject({ product: 'Gunpowder', quantity: 4, totalCents: 4 * 780 })
    expect(await stockOf(3)).toBe(stock - 4)
    // The row is rejected after the tins were taken, so the tins are put back.
    const broken = order('ada', { customer: null })
    await expect(broken).rejects.toThrow('null value in column "customer"')
    expect(await stockOf(3)).toBe(stock - 4)
  })

  it('sells nothing more to a second attempt of the same request', async () => {
    const first = await order('eve', { request: 'r-1' })
    const stock = await stockOf(3)
    expect(await order('eve', { request: 'r-1' })).toEqual(first)
    const both = await Promise.all([1, 2].map(() => order('eve', { request: 'r-2' })))
    expect(both[0]).toEqual(both[1])
    expect(await stockOf(3)).toBe((stock ?? 0) - 1)
    expect(await listOrders(database, 'eve')).toHaveLength(2)
  })

  it('distinguishes a product without stock from an unknown product', async () => {
    const stock = await stockOf(18)
    expect(await order('bob', { productId: 18, quantity: 100 })).toBe('out of stock')
    expect(await order('bob', { productId: 25 })).toBe('no such product')
    expect(await stockOf(18)).toBe(stock)
    expect(await listOrders(database, 'bob')).toEqual([])
  })

  it('never sells a tin twice', async () => {
    const { stock = 0 } = (await findProduct(database, 8)) ?? {}
    const many = Array.from({ length: stock + 5 }, () => order('mob', { productId: 8 }))
    const sold = (await Promise.all(many)).filter((placed) => placed !== 'out of stock')
    expect(sold).toHaveLength(stock)
    expect(await stockOf(8)).toBe(0)
  })
})

describe('the orders of a customer', () => {
  it('are the latest twenty, newest first, and visible only to that customer', async () => {
    for (let i = 0; i < 21; i++) await order('zoe')
    const listed = await listOrders(database, 'zoe')
    expect(listed).toHaveLength(20)
    const ids = listed.map(({ id }) => id)
    expect(ids).toEqual([...ids].sort((a, b) => b - a))
    expect(await findOrder(database, 'zoe', ids[0] ?? 0)).toEqual(listed[0])
    expect(await findOrder(database, 'ada', ids[0] ?? 0)).toBeUndefined()
  })

  it('are counted as those after the last order before the run', async () => {
    const before = await restock(database, 8, 3)
    expect(before?.stock).toBe(3)
    await order('kim', { productId: 8 })
    await order('kim')
    await order('lee', { productId: 8 })
    const lastOrderId = before?.lastOrderId ?? 0
    const since = await ordersSince(database, { customer: 'kim', productId: 8, lastOrderId })
    expect(since).toMatchObject({ orders: [{ customer: 'kim', productId: 8 }], stock: 1 })
    expect((await restock(database, 8, 0))?.stock).toBe(1)
    expect(await restock(database, 25, 3)).toBeUndefined()
  })
})

describe('a transaction', () => {
  it('fails without the database, and frees its connection', async () => {
    database.connected = false
    await expect(order('ada')).rejects.toThrow('disconnected')
    database.connected = true
    expect(await order('ada')).toMatchObject({ customer: 'ada' })
  })
})
