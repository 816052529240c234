// Cases: the process warning about a cache that stores nothing of its first 100 GET requests.
import { Agent } from 'node:http'
import { expect, it } from 'vitest'
import { ask } from '../requests.ts'
import type { CacheAdapter, Outside, Says } from './adapter.ts'
import { setUp } from './bench.ts'

interface Asked {
  readonly options?: object
  readonly headers?: Record<string, string>
  readonly method?: string
  readonly requests?: number
  readonly urls?: number
  readonly outside?: Outside
}

/** Adds a cookie when the head is sent, as express-session does. */
const session: Outside = (res, next) => {
  const writeHead = res.writeHead.bind(res)
  res.writeHead = ((...head: Parameters<typeof writeHead>) => {
    res.setHeader('set-cookie', 'sid=1')
    return writeHead(...head)
  }) as typeof res.writeHead
  return next()
}

const control = (value: string): Says => ({ headers: { 'cache-control': value } })
const always = (says: Says | 'throws') => () => {
  if (says === 'throws') throw new Error('the handler failed')
  return says
}
const oneIn = (n: number, says: Says) => (i: number) => (i % n === 0 ? says : {})
const COOKIE = { 'set-cookie': 'id=1' }

export function silenceCases(adapter: CacheAdapter): void {
  async function warningsOf(says: (run: number) => Says, asked: Asked): Promise<string[]> {
    const { requests = 110, urls = 10, headers = {}, method = 'GET', outside } = asked
    const texts: string[] = []
    const listen = ({ message, ...rest }: Error & { code?: string }) => {
      if (rest.code === 'STAMPEDE_NEVER_STORED') texts.push(message)
    }
    const act = ({ path }: { path: string }) => says(Number(path.slice(3)))
    const { start } = setUp(adapter, act, outside ? { outside } : {})
    const agent = new Agent({ keepAlive: true })
    process.on('warning', listen)
    try {
      await using app = await start(asked.options)
      for (let i = 0; i < requests; i++)
        await ask(`${app.url}/p/${i % urls}?token=x`, { method, headers }, agent)
      await new Promise((resolve) => setImmediate(resolve))
    } finally {
      process.off('warning', listen)
      agent.destroy()
    }
    return texts
  }

  it.each<[reason: string, fix: string, says: Says | 'throws', asked: Asked]>([
    ['set-cookie', 'saveUninitialized: false', { headers: COOKIE }, {}],
    ['set-cookie', 'saveUninitialized: false', {}, { outside: session }],
    ['no-store', 'Stampede-Cache-Control', control('no-store'), {}],
    ['private', 'Stampede-Cache-Control', control('private, max-age=60'), {}],
    ['no-cache', 'Stampede-Cache-Control', control('no-cache'), {}],
    ['no-freshness', 'set ttlMs', {}, { options: { ttlMs: undefined } }],
    ['server-error', 'responded with 5xx', { status: 500 }, {}],
    ['server-error', 'responded with 5xx', { status: 503 }, { urls: 3 }],
    ['server-error', 'the handler threw', 'throws', {}],
    ['status', 'negativeTtlMs', { status: 404 }, {}],
    ['cookie', "cookies: 'ignore'", {}, { headers: { cookie: '_ga=1' } }],
    ['authorization', 'use identity', {}, { headers: { authorization: 'Bearer a' } }],
  ])(
    'that stores nothing because of %s emits one warning, with the fix "%s"',
    async (reason, fix, says, asked) => {
      const texts = await warningsOf(always(says), asked)
      expect(texts).toHaveLength(1)
      expect(texts[0]).toContain(`reason is ${reason}, such as for GET /p/0: `)
      expect(texts[0]).toContain(fix)
      expect(texts[0]).toContain('See docs/guide/why-nothing-is-cached.md')
      expect(texts[0]).not.toContain('token')
    },
  )

  it.each<[what: string, says: (run: number) => Says, asked: Asked]>([
    ['stores 8 of 10 pages', oneIn(5, control('private')), {}],
    ['stores one page in two', oneIn(2, { headers: COOKIE }), {}],
    ['got 3 requests', always({ headers: COOKIE }), { requests: 3 }],
    ['got 99 requests', always({ headers: COOKIE }), { requests: 99 }],
    ['got requests for 2 URLs', always({ headers: COOKIE }), { urls: 2 }],
    ['gets only POST requests', always({ headers: COOKIE }), { method: 'POST' }],
    ['gets only HEAD requests', always({ headers: COOKIE }), { method: 'HEAD' }],
    ['is switched off by bypass', always({}), { options: { bypass: () => true } }],
  ])('that %s emits no warning', async (_what, says, asked) => {
    expect(await warningsOf(says, asked)).toEqual([])
  })
}
