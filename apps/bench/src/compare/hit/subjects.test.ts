import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { BODY, product } from '../lib/product.ts'
import { checkOriginCalls } from './run-hits.ts'
import type { ServerModule, Subject } from './subject.ts'
import { subjects } from './subjects.ts'

const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

async function serve({ id, server = id }: Subject) {
  const { listener }: ServerModule = await import(`./servers/${server}.ts`)
  let calls = 0
  const origin = () => {
    calls += 1
    return product
  }
  const http = createServer(listener(origin, '')).listen(0, '127.0.0.1')
  await once(http, 'listening')
  closing.push(() => {
    http.closeAllConnections()
    http.close()
  })
  const { port } = http.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/products/`, calls: () => calls }
}

const CALLS_OF_THREE = { floor: 0, uncached: 3, ours: 1, peer: 1, reference: 1 }

const byId = (id: string): Subject => {
  const subject = subjects.find((each) => each.id === id)
  if (subject === undefined) throw new Error(`no subject named ${id}`)
  return subject
}

const FLOORS = [
  ['node-floor', 'front'],
  ['express-used', 'express'],
  ['express-floor', 'express'],
  ['express4-floor', 'express4'],
  ['koa-floor', 'koa'],
] as const

describe('a server of the benchmark', () => {
  // Servers over Redis are checked by the benchmark run itself.
  const inNode = subjects.filter(({ kind, isOverRedis }) => kind !== 'reference' && !isOverRedis)
  const [misses, others] = [true, false].map((isEachNew) =>
    inNode.filter((subject) => (subject.isEachNew ?? false) === isEachNew),
  ) as [Subject[], Subject[]]

  it.each(others)(
    '$id responds with the product and calls the origin as often as expected',
    async (subject) => {
      const { url, calls } = await serve(subject)
      for (let i = 0; i < 3; i++) {
        const response = await fetch(`${url}42`)
        expect(response.status).toBe(200)
        expect(response.headers.get('content-length')).toBe(String(BODY.length))
        expect(await response.json()).toEqual(product)
      }
      expect(calls()).toBe(CALLS_OF_THREE[subject.kind])
    },
  )

  it.each(misses)('$id calls the origin for every request', async (subject) => {
    const { url, calls } = await serve(subject)
    for (let i = 0; i < 3; i++) await (await fetch(`${url}m${i}`)).arrayBuffer()
    expect(calls()).toBe(3)
  })

  it.each(FLOORS)('%s sends the header fields of a hit of Stampede', async (floorId, oursId) => {
    const [floor, ours] = [await serve(byId(floorId)), await serve(byId(oursId))]
    const names = async (url: string) => [...(await fetch(`${url}42`)).headers.keys()].sort()
    await names(ours.url)
    expect(await names(floor.url)).toEqual(await names(ours.url))
  })
})

describe('a measured rate', () => {
  const [hit, miss] = [byId('express'), byId('express-miss')]

  it('is refused if a hit called the origin or a miss did not', () => {
    expect(() => checkOriginCalls(hit, 1, 1_000)).toThrow('express: 1 origin calls for 1000')
    expect(() => checkOriginCalls(miss, 999, 1_000)).toThrow('999 origin calls')
    checkOriginCalls(hit, 0, 1_000)
    checkOriginCalls(miss, 1_000, 1_000)
  })
})
