// The endpoints of the dashboard, for an authorized client.

import { createRequire } from 'node:module'
import { createStampede, memoryStore, type Stampede } from '@stampede/core'
import { stampedeFront } from '@stampede/node-http'
import Koa from 'koa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  rawRequest,
  serve,
  startRequest,
  type TestServer,
} from '../../node-http/src/testing/raw-client.ts'
import type { FleetView } from './fleet-view.ts'
import { stampedeDashboard, stampedeDashboardKoa } from './index.ts'
import type { KeyView } from './key-page.ts'
import type { LocksView } from './locks-page.ts'

const require = createRequire(import.meta.url)
const mount: (path: string, middleware: Koa.Middleware) => Koa.Middleware = require('koa-mount')

const HOSTILE = ['<script>alert(1)</script>', '"><img src=x onerror=alert(1)>', 'a\u202eb\u0000c']

let stampede: Stampede
let dashboard: ReturnType<typeof stampedeDashboard>
let server: TestServer
beforeEach(async () => {
  stampede = createStampede()
  dashboard = stampedeDashboard({ stampede, authorize: () => true })
  server = await serve(dashboard)
})
afterEach(async () => {
  await dashboard.close()
  await server[Symbol.asyncDispose]()
  await stampede.close()
})

const ask = (path: string, init?: RequestInit) =>
  fetch(`http://127.0.0.1:${server.port}${path}`, init)
const get = async <T>(path: string) => (await (await ask(path)).json()) as T
const keyOf = (key: string) => get<KeyView>(`/api/key?key=${encodeURIComponent(key)}`)

describe('each response', () => {
  it('forbids foreign content, framing, storing and guessing its type', async () => {
    for (const path of ['/', '/api/fleet', '/api/key?key=a', '/api/key', '/api/locks']) {
      const { headers } = await ask(path)
      expect(headers.get('cache-control'), path).toContain('no-store')
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      const policy = headers.get('content-security-policy')
      expect(policy).toContain("default-src 'none'")
      expect(policy).toContain("frame-ancestors 'none'")
      expect(policy).not.toMatch(/unsafe|\*|http/)
    }
  })

  it('is the page, whose files exist and are immutable', async () => {
    const page = await (await ask('/')).text()
    const files = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, file]) => file)
    expect(files.length).toBe(3)
    expect(page).not.toMatch(/<script>|<style>| style=| on\w+=/)
    for (const file of files) {
      const { status, headers } = await ask(`/${file}`)
      expect([file, status]).toEqual([file, 200])
      if (file !== 'icon.svg') expect(headers.get('cache-control')).toContain('immutable')
    }
    for (const path of ['/app.js', '/../package.json', '/%2e%2e/package.json', '/assets']) {
      expect((await ask(path)).status, path).toBe(404)
    }
  })

  it('leads from the path without a slash to the one with it, below any mount', async () => {
    const app = new Koa()
    app.use(mount('/ops/cache', stampedeDashboardKoa({ stampede, authorize: () => true })))
    await using mounted = await serve(app.callback())
    const { head } = await rawRequest(mounted.port, '/ops/cache?x=1')
    expect(head).toEqual(expect.arrayContaining(['HTTP/1.1 302 Found', 'Location: ./cache/']))
    expect((await rawRequest(mounted.port, '/ops/cache/')).head[0]).toContain('200')
  })
})

it('does not respond to a request that other code has responded to meanwhile', async () => {
  let admit = (_: boolean): void => {}
  const authorize = () =>
    new Promise<boolean>((resolve) => {
      admit = resolve
    })
  const late = stampedeDashboard({ stampede, authorize })
  for (const path of ['/', '/api/fleet', '/api/live']) {
    await using own = await serve((req, res) => {
      late(req, res)
      res.writeHead(504).end('timeout')
      admit(true)
    })
    expect((await rawRequest(own.port, path)).head[0], path).toContain('504')
    await new Promise((resolve) => setImmediate(resolve))
  }
  await late.close()
})

describe('api/fleet', () => {
  it('has the counters, keys and events of the process', async () => {
    for (const key of ['a', 'b', 'a']) await stampede.getOrSet(key, () => 1, { ttlMs: 60_000 })
    const view = await get<FleetView>('/api/fleet')
    expect(view.processes).toMatchObject([{ pid: process.pid, isSelf: true, hits: 1, misses: 2 }])
    expect(view.totals).toMatchObject({ misses: 2, leases: { absent: 2 } })
    expect(view.hotKeys).toMatchObject([{ key: 'a', id: 'd:=a', hits: 1 }])
    expect(view.events.map(({ type }) => type)).toContain('lease.granted')
  })

  it('keeps hostile keys as they are, as JSON', async () => {
    for (const key of HOSTILE) {
      await stampede.getOrSet(key, () => 1, { ttlMs: 60_000 })
      await stampede.getOrSet(key, () => 1, { ttlMs: 60_000 })
    }
    const response = await ask('/api/fleet')
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    const { hotKeys } = (await response.json()) as FleetView
    expect(hotKeys.map(({ key }) => key).sort()).toEqual([...HOSTILE].sort())
  })
})

describe('api/key', () => {
  it('has the entry of a value, without the value', async () => {
    const options = { ttlMs: 60_000, tags: ['t'] }
    await stampede.getOrSet('user:7', () => ({ secret: 'hunter2' }), options)
    const view = await keyOf('user:7')
    expect(view).toMatchObject({
      kind: 'value',
      purgeKey: 'user:7',
      entry: { type: 'value', tags: ['t'], bodyBytes: 20 },
      record: { freshForMs: expect.any(Number) },
      lastFill: { reason: 'absent' },
    })
    expect(JSON.stringify(view)).not.toContain('hunter2')
    expect(await keyOf(view.internalKey)).toMatchObject({ purgeKey: 'user:7', kind: 'value' })
  })

  it('has why a key was filled again after a purge', async () => {
    await stampede.getOrSet('k', () => 1, { ttlMs: 60_000, tags: ['t'] })
    await stampede.purge({ tag: 't' })
    await stampede.getOrSet('k', () => 1, { ttlMs: 60_000, tags: ['t'] })
    expect((await keyOf('k')).lastFill).toMatchObject({ reason: 'purged' })
  })

  it.each<[text: string, options: object, headers: Record<string, string>]>([
    ['accept-language: de', { vary: ['accept-language'] }, { 'accept-language': 'de' }],
    ['cookie lang=de', { cookies: { key: ['lang'] } }, { cookie: 'lang=de' }],
    ['identity ann', { identity: () => 'ann' }, {}],
    ['x-forwarded-host: shop.example', {}, { 'x-forwarded-host': 'shop.example' }],
  ])(
    'names the variant %s of a URL without an entry of its own',
    async (text, options, headers) => {
      const front = stampedeFront((_req, res) => void res.end('page'), {
        ...{ stampede, ttlMs: 60_000 },
        ...options,
      })
      await using app = await serve(front)
      const url = `http://127.0.0.1:${app.port}/a`
      await (await fetch(url, { headers })).text()
      await expect.poll(() => stampede.stats().fills.committed).toBe(1)
      const view = await keyOf(url)
      expect(view.record).toMatchObject({ variants: true })
      expect(view.entry).toBeUndefined()
      expect(view.variants).toEqual([{ internalKey: expect.any(String), text }])
      const variant = await keyOf(view.variants[0]?.internalKey ?? '')
      expect(variant.entry).toMatchObject({ status: 200, bodyBytes: 4 })
    },
  )

  it('says that nothing is stored, and refuses an empty or endless key', async () => {
    expect(await keyOf('https://shop.example/none')).toMatchObject({ kind: 'response' })
    expect((await keyOf('none')).record).toBeUndefined()
    expect((await ask('/api/key?key=')).status).toBe(400)
    expect((await ask(`/api/key?key=${'a'.repeat(9_000)}`)).status).toBe(400)
  })

  it('works with keys that no reader should trust', async () => {
    for (const key of [...HOSTILE, 'http:GET 99:', 'd:', '\ufffd', 'https://[', '~hash']) {
      expect((await ask(`/api/key?key=${encodeURIComponent(key)}`)).status).toBe(200)
    }
  })
})

it('api/locks has all locks of a page, also more than a hundred, with any name', async () => {
  const store = memoryStore()
  const other = createStampede({ store })
  for (let i = 0; i < 120; i++) {
    store.locks.acquire(`lock #${i}`, { token: `t${i}`, leaseMs: 60_000, queue: false })
  }
  const watching = stampedeDashboard({ stampede: other, authorize: () => true })
  await using own = await serve(watching)
  const view = await (await fetch(`http://127.0.0.1:${own.port}/api/locks`)).json()
  expect((view as LocksView).locks).toHaveLength(120)
  await watching.close()
  await other.close()
})

describe('api/purge', () => {
  const OWN = { 'content-type': 'application/json', 'x-stampede-dashboard': '1' }
  const purge = (body: unknown, headers: Record<string, string> = OWN) =>
    ask('/api/purge', { method: 'POST', headers, body: JSON.stringify(body) })
  const stored = async () => {
    await stampede.getOrSet('k', () => 1, { ttlMs: 60_000, tags: ['t'] })
    return (await keyOf('k')).entry !== undefined
  }

  it('purges a key and a tag', async () => {
    expect(await stored()).toBe(true)
    expect((await purge({ key: 'k' })).status).toBe(200)
    expect((await keyOf('k')).entry).toBeUndefined()
    await stored()
    expect(await (await purge({ tag: 't', soft: true })).json()).toMatchObject({ soft: true })
    expect((await keyOf('k')).entry?.purges).toMatchObject([{ by: 'tag', soft: true }])
  })

  it('purges several names of one kind, and a cache', async () => {
    await stored()
    expect((await purge({ tags: ['other', 't'] })).status).toBe(200)
    expect((await keyOf('k')).entry?.purges).toMatchObject([{ by: 'tag', soft: false }])
    expect((await purge({ tags: [] })).status).toBe(400)
    await stampede.cache('rates', { ttlMs: 60_000 }).set('eur', 1)
    expect((await keyOf('rates:eur')).entry?.purges).toEqual([])
    expect((await purge({ cache: 'rates' })).status).toBe(200)
    expect((await keyOf('rates:eur')).entry?.purges).toMatchObject([
      { by: 'cache', subject: 'rates', soft: false },
    ])
  })

  it.each([
    ['no own field', { 'content-type': 'application/json' }],
    ['a form', { ...OWN, 'content-type': 'application/x-www-form-urlencoded' }],
    ['another site', { ...OWN, 'sec-fetch-site': 'cross-site' }],
    ['another origin of the same site', { ...OWN, 'sec-fetch-site': 'same-site' }],
    ['another origin', { ...OWN, origin: 'https://evil.example' }],
    ['a hidden origin', { ...OWN, origin: 'null' }],
  ])('refuses a request with %s', async (_, headers) => {
    await stored()
    expect([403, 415]).toContain((await purge({ key: 'k' }, headers)).status)
    expect((await keyOf('k')).entry).toBeDefined()
  })

  it('refuses a wrong target, a wrong body and a long one', async () => {
    expect(await (await purge({ path: 'a' })).json()).toMatchObject({
      error: expect.stringContaining('purge.path'),
    })
    // The form shows this message.
    expect(await (await purge({ path: '/api/*' })).json()).toMatchObject({
      error: expect.stringContaining("use { route: '/api/*' }"),
    })
    for (const body of [{}, { key: 'k', tag: 't' }, [], 1, { key: 'k'.repeat(100_000) }]) {
      expect((await purge(body)).status).toBe(400)
    }
  })

  it('reads a body that a body parser has read before', async () => {
    await stored()
    await using parsed = await serve((req, res) => {
      Object.assign(req, { body: { key: 'k' } })
      dashboard(req, res)
    })
    const url = `http://127.0.0.1:${parsed.port}/api/purge`
    expect((await fetch(url, { method: 'POST', headers: OWN, body: '{}' })).status).toBe(200)
    expect((await keyOf('k')).entry).toBeUndefined()
  })
})

describe('api/live', () => {
  const open = async () => {
    const { body, headers, status } = await ask('/api/live')
    const reader = body?.pipeThrough(new TextDecoderStream()).getReader()
    const rest = async (until?: string): Promise<string> => {
      let text = ''
      for (;;) {
        const { done, value } = (await reader?.read()) ?? { done: true, value: '' }
        text += value ?? ''
        if (done || (until !== undefined && text.includes(until))) return text
      }
    }
    return { status, headers, rest }
  }

  it('sends the fleet at once, and ends when the dashboard is closed', async () => {
    const { headers, rest } = await open()
    expect(headers.get('content-type')).toContain('text/event-stream')
    expect(await rest('event: fleet\ndata: {')).toContain('retry:')
    await dashboard.close()
    await rest()
    expect((await ask('/api/live')).status).toBe(503)
  })

  it('ends when the server stops listening, so that the server can close', async () => {
    const own = await serve(dashboard)
    const socket = startRequest(own.port, ['GET /api/live HTTP/1.1', 'Host: a'])
    await new Promise((resolve) => socket.once('data', resolve))
    const ended = new Promise((resolve) => socket.once('close', resolve))
    await Promise.all([own[Symbol.asyncDispose](), ended])
  })

  it('ends when the Stampede is closed', async () => {
    const { rest } = await open()
    await rest('event: fleet')
    await stampede.close()
    await rest()
  })

  it('has a limit of viewers', async () => {
    const all = await Promise.all(Array.from({ length: 101 }, open))
    expect(all.filter(({ status }) => status === 503).length).toBe(1)
    await dashboard.close()
  })
})

describe('keys', () => {
  it('are nowhere in the reports with showKeys: false', async () => {
    const store = memoryStore()
    const hidden = createStampede({ store })
    const options = { stampede: hidden, authorize: () => true, showKeys: false }
    const secretive = stampedeDashboard(options)
    await using own = await serve(secretive)
    for (let i = 0; i < 2; i++) {
      await hidden.getOrSet('tok-3n', () => 1, { ttlMs: 60_000, tags: ['tok-3n'] })
    }
    const failing = () => Promise.reject(new Error('no tok-3n'))
    await hidden.getOrSet('x', failing, { ttlMs: 1 }).catch(() => {})
    await hidden.purge({ tag: 'tok-3n' })
    const text = await (await fetch(`http://127.0.0.1:${own.port}/api/fleet`)).text()
    await secretive.close()
    const reports = JSON.stringify([...(await store.operator.reports()).values()])
    expect(text).toContain('lease.granted')
    expect(text + reports).not.toContain('tok-3n')
    await hidden.close()
  })
})
