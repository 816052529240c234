// Cases: layers in front of the cache that set a cookie while the head is sent, as sessions do.
import type { ServerResponse } from 'node:http'
import { expect, it } from 'vitest'
import { ask } from '../requests.ts'
import type { CacheAdapter, Outside } from './adapter.ts'
import { setUp } from './bench.ts'

const COOKIE = 'sid=1'

/** Wraps writeHead. `before` may change the response or the arguments. */
const atHead =
  (before: (res: ServerResponse, args: unknown[]) => unknown[]): Outside =>
  (res, next) => {
    const { writeHead } = res
    let isSet = false
    const own = (...args: unknown[]): unknown => {
      const changed = isSet ? args : before(res, args)
      isSet = true
      return Reflect.apply(writeHead, res, changed)
    }
    Object.assign(res, { writeHead: own })
    return next()
  }

const LAYERS: Readonly<Record<string, Outside>> = {
  'by setHeader in writeHead': atHead((res, args) => {
    res.setHeader('Set-Cookie', COOKIE)
    return args
  }),
  'by appendHeader in writeHead': atHead((res, args) => {
    res.appendHeader('set-cookie', COOKIE)
    return args
  }),
  'in the fields of writeHead': atHead((_res, [status, fields]) => {
    if (Array.isArray(fields)) return [status, [...fields, 'Set-Cookie', COOKIE]]
    return [status, { ...(fields as object | undefined), 'Set-Cookie': COOKIE }]
  }),
  'in end': (res, next) => {
    const { end } = res
    const own = (...args: unknown[]): unknown => {
      if (!res.headersSent) res.setHeader('Set-Cookie', COOKIE)
      return Reflect.apply(end, res, args)
    }
    Object.assign(res, { end: own })
    return next()
  },
}

export function lateCookieCases(adapter: CacheAdapter): void {
  it.each(Object.keys(LAYERS))('never says stored of a cookie set %s', async (way) => {
    const { stampede, start } = setUp(adapter, () => ({ body: 'page' }), {
      outside: LAYERS[way] as Outside,
    })
    await using app = await start()
    for (const headers of [{}, {}, { range: 'bytes=0-1' }, { 'if-none-match': '*' }]) {
      for (const method of ['GET', 'HEAD']) {
        const answer = await ask(`${app.url}/${method}`, { headers, method })
        // The server of Hono writes the head before end().
        if (way === 'in end' && answer.headers['set-cookie'] === undefined) return
        expect(answer.headers['set-cookie']).toEqual([COOKIE])
        expect(answer.headers['cache-status']).not.toMatch(/; stored|; hit/)
      }
    }
    expect(stampede.stats().fills.committed).toBe(0)
    const first = await ask(`${app.url}/first`)
    expect(first.headers['cache-status']).toMatch(
      /fwd=uri-miss; fwd-status=200; detail=set-cookie$/,
    )
  })

  it('says stored if a layer sets another field while the head is sent', async () => {
    const outside = atHead((res, args) => {
      res.setHeader('X-Late', 'yes')
      return args
    })
    const { start } = setUp(adapter, () => ({ body: 'page' }), { outside })
    await using app = await start()
    expect((await ask(`${app.url}/a`)).headers['cache-status']).toMatch(/; stored$/)
  })
}
