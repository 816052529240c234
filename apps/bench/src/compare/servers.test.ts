import { createServer } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { listen } from '../lib/http.ts'
import { BODY, product } from '../lib/product.ts'
import { requestsOf } from '../lib/requests.ts'
import { memoryPeers } from './data-peers.ts'
import { checkOriginCalls, type ServerRow } from './run-servers.ts'
import { servers } from './servers.ts'
import { hits, paths } from './tables.ts'

async function serve({ id, server = id }: ServerRow) {
  let calls = 0
  const origin = () => {
    calls += 1
    return product
  }
  const http = createServer(await servers[server]?.(origin, ''))
  onTestFinished(() => {
    http.closeAllConnections()
    http.close()
  })
  return { url: `http://127.0.0.1:${await listen(http)}/products/`, calls: () => calls }
}

const CALLS_OF_THREE = { floor: 0, uncached: 3, ours: 1, peer: 1 }

const byId = (id: string): ServerRow => {
  const row = hits.find((each) => each.id === id)
  if (row === undefined) throw new Error(`no row named ${id}`)
  return row
}

describe('a server of the benchmark', () => {
  // Servers over Redis are checked by the benchmark run itself.
  const inMemory = hits.filter(({ isOverRedis }) => !isOverRedis)

  it.each(inMemory.filter(({ request }) => request === undefined))(
    '$id responds with the product and calls the origin as often as expected',
    async (row) => {
      const { url, calls } = await serve(row)
      for (let i = 0; i < 3; i++) {
        const response = await fetch(`${url}42`)
        expect(response.status).toBe(200)
        expect(response.headers.get('content-length')).toBe(String(BODY.length))
        expect(await response.json()).toEqual(product)
      }
      expect(calls()).toBe(CALLS_OF_THREE[row.kind])
    },
  )

  it.each(inMemory.filter(({ request }) => request === 'new'))(
    '$id calls the origin for every request',
    async (row) => {
      const { url, calls } = await serve(row)
      for (let i = 0; i < 3; i++) await (await fetch(`${url}m${i}`)).arrayBuffer()
      expect(calls()).toBe(3)
    },
  )

  it.each([
    ['node-floor', 'front'],
    ['express-used', 'express'],
    ['express-floor', 'express'],
    ['express4-floor', 'express4'],
    ['koa-floor', 'koa'],
  ])('%s sends the header fields of a hit of Stampede', async (floorId, oursId) => {
    const [floor, ours] = [await serve(byId(floorId)), await serve(byId(oursId))]
    const names = async (url: string) => [...(await fetch(`${url}42`)).headers.keys()].sort()
    await names(ours.url)
    expect(await names(floor.url)).toEqual(await names(ours.url))
  })
})

describe('every data cache in memory', () => {
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

describe('a measured rate', () => {
  it('is refused if a hit called the origin or a miss did not', () => {
    const [hit, miss] = [byId('express'), byId('express-miss')]
    expect(() => checkOriginCalls(hit, 1, 1_000)).toThrow('express: 1 origin calls for 1000')
    expect(() => checkOriginCalls(miss, 999, 1_000)).toThrow('999 origin calls')
    checkOriginCalls(hit, 0, 1_000)
    checkOriginCalls(miss, 1_000, 1_000)
  })
})

describe.each([
  ['hits', hits],
  ['paths', paths],
])('the table of %s', (_name, rows) => {
  it('has unique ids and known servers, and each floor is divided by nothing', () => {
    const ids = rows.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    for (const { id, server = id, floor } of rows) {
      expect(servers).toHaveProperty(server)
      if (floor !== undefined) expect(rows.find((row) => row.id === floor)?.floor).toBe(undefined)
      if (floor !== undefined) expect(ids).toContain(floor)
    }
  })
})

describe('the requests of a closed loop', () => {
  it('have a new target or key if each must be the first of its kind', () => {
    for (const kind of ['new', 'private-new', 'order'] as const) {
      const next = requestsOf(kind)
      expect(String(next())).not.toBe(String(next()))
    }
    const repeated = requestsOf('repeated-order')
    expect(repeated()).toBe(repeated())
  })
})
