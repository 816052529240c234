// Middlewares of Koa in front of the cache and of idempotency keys. They must see ctx.body as the
// same kind of value on a first response, a replay, a hit, a problem and a shared failure. They may
// replace or change it each time.

import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Readable, Transform } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { createStampede, type StampedeStore } from '@stampede/core'
import { idempotency, stampedeCache } from '@stampede/koa'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import type Koa from 'koa'
import Koa3 from 'koa'
import Koa2 from 'koa2'
import { describe, expect, test } from 'vitest'
import { deferred } from '../../packages/node-http/src/testing/deferred.ts'
import { createGate } from '../harness/origin.ts'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server } = await redisOfFile()

let opened = 0
const STORES: Record<string, () => StampedeStore | undefined> = {
  memory: () => undefined,
  Redis: () =>
    redisStore(new Redis(server.url, { lazyConnect: true }), {
      prefix: `k${++opened}`,
      ...PATIENT,
    }),
}

const isPlain = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !(value instanceof Readable)

/** The kind of ctx.body, as a middleware sees it. */
function kindOf(body: unknown): string {
  if (Buffer.isBuffer(body)) return 'Buffer'
  if (body instanceof Readable) return 'stream'
  return Array.isArray(body) ? 'array' : body === null ? 'null' : typeof body
}

const camel = (name: string): string => name.replace(/_(\w)/g, (_, c: string) => c.toUpperCase())

/** As koa-knex-realworld has it: it does not know buffers, so it copies them key by key. */
function camelized(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelized)
  if (!isPlain(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, of]) => [camel(key), camelized(of)]))
}

const LAYERS: Record<string, (ctx: Koa.Context) => void> = {
  'a camelizer': (ctx) => {
    if (isPlain(ctx.body) && !Buffer.isBuffer(ctx.body)) ctx.body = camelized(ctx.body)
    else if (Buffer.isBuffer(ctx.body)) ctx.body = ctx.body.toString('hex')
  },
  'a page in place of no body': (ctx) => {
    if (ctx.body === undefined) ctx.body = '<p>nothing here</p>'
  },
  'an envelope': (ctx) => {
    if (!(ctx.body instanceof Readable)) ctx.body = { data: ctx.body }
  },
  'a transform stream': (ctx) => {
    if (ctx.body instanceof Readable) ctx.body = ctx.body.pipe(upperCase())
  },
  'a change of the body in place': ({ body }) => {
    if (Buffer.isBuffer(body)) body.fill('Z')
    else if (Array.isArray(body)) body.push('added')
    else if (isPlain(body)) Object.assign(body, { added: true })
  },
}

function upperCase(): Transform {
  return new Transform({
    transform: (chunk: Buffer, _encoding, done) => done(null, chunk.toString().toUpperCase()),
  })
}

const BODIES: Record<string, (ctx: Koa.Context) => void> = {
  object: (ctx) => (ctx.body = { article_id: 7, nested: [{ created_at: 'é' }] }),
  array: (ctx) => (ctx.body = [{ article_id: 7 }]),
  string: (ctx) => (ctx.body = 'héllo'),
  html: (ctx) => (ctx.body = '<p>hi</p>'),
  empty: (ctx) => (ctx.body = ''),
  Buffer: (ctx) => (ctx.body = Buffer.from([0, 255, 128])),
  stream: (ctx) => (ctx.body = Readable.from([Buffer.from('str'), Buffer.from('eam')])),
  Blob: (ctx) => (ctx.body = new Blob(['blob'])),
  'web stream': (ctx) => (ctx.body = new Blob(['web']).stream()),
  null: (ctx) => (ctx.body = null),
  'null with 201': (ctx) => {
    ctx.body = null
    ctx.status = 201
  },
  created: (ctx) => {
    ctx.status = 201
    ctx.body = { article_id: 8 }
  },
  number: (ctx) => (ctx.body = 7),
  'a status alone': (ctx) => (ctx.status = 200),
  'another status alone': (ctx) => (ctx.status = 201),
}

interface Seen {
  kind: string
  status: number
  type: string | null
  length: string | null
  body: string
}

async function start(App: typeof Koa, store: StampedeStore, layer: (ctx: Koa.Context) => void) {
  const app = new App()
  app.silent = true
  const stampede = createStampede({ store })
  const gate = createGate()
  const { promise: inside, resolve: entered } = deferred()
  let arrived = 0
  app.use(async (ctx, next) => {
    arrived += 1
    await next()
    ctx.set('X-Kind', kindOf(ctx.body))
    layer(ctx)
  })
  app.use(idempotency({ stampede, scope: () => 'ann', required: ({ path }) => path !== '/plain' }))
  const ttl = { ttlMs: 60_000, staleWhileRevalidateMs: 60_000 }
  app.use(stampedeCache({ stampede, ...ttl, statuses: [200, 201] }))
  app.use(async (ctx) => {
    const name = decodeURIComponent(ctx.path.slice(1))
    if (name === 'held' || name === 'fails') {
      entered()
      await gate.opened
    }
    if (name === 'fails') ctx.throw(503, 'down')
    BODIES[name]?.(ctx)
    if (name === 'held') ctx.body = { a: 1 }
  })
  const http = app.listen(0, '127.0.0.1')
  await once(http, 'listening')
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  return {
    inside,
    gate,
    arrived: () => arrived,
    makeStale: () => stampede.purge({ all: true }, { soft: true }),
    async ask(path: string, init: RequestInit = {}): Promise<Seen> {
      const response = await fetch(`${url}/${encodeURIComponent(path)}`, init)
      const body = Buffer.from(await response.arrayBuffer()).toString('latin1')
      const { status, headers } = response
      const [kind, type, length] = ['x-kind', 'content-type', 'content-length'].map((name) =>
        headers.get(name),
      )
      return { kind, status, type, length, body } as Seen
    },
    async [Symbol.asyncDispose]() {
      http.closeAllConnections()
      http.close()
      await stampede.close()
    },
  }
}

const post = (body: string, key?: string): RequestInit => ({
  method: 'POST',
  body,
  headers: { 'content-type': 'text/plain', ...(key && { 'idempotency-key': `"${key}"` }) },
})

const APPS: Record<string, typeof Koa> = { 'Koa 3': Koa3, 'Koa 2': Koa2 as never }

describe.each(Object.keys(APPS))('%s', (version) => {
  describe.each(Object.keys(STORES))('on %s', (storeName) => {
    describe.each(Object.keys(LAYERS))('with %s in front', (layer) => {
      const open = () =>
        start(
          APPS[version] as typeof Koa,
          STORES[storeName]?.() as StampedeStore,
          LAYERS[layer] as never,
        )

      test('replays and hits have the kind and bytes of the first response', async () => {
        await using app = await open()
        const ask = async (...args: Parameters<typeof app.ask>) => {
          const { length: _, ...seen } = await app.ask(...args)
          return seen
        }
        for (const name of Object.keys(BODIES)) {
          const first = await ask(name, post('a', name))
          const replays = [await ask(name, post('a', name)), await ask(name, post('a', name))]
          expect([name, replays]).toEqual([name, [first, first]])
          const [miss, ...waiters] = await Promise.all([ask(name), ask(name), ask(name)])
          const fresh = await ask(name)
          await app.makeStale()
          const hits = [...waiters, fresh, await ask(name), await ask(name)]
          expect([name, hits]).toEqual([name, hits.map(() => miss)])
          expect([name, miss.kind]).toEqual([name, first.kind])
        }
        for (const name of ['object', 'array', 'string', 'Buffer']) {
          const { length } = await app.ask(name, { method: 'HEAD' })
          expect([name, length]).toEqual([name, `${(await app.ask(name)).body.length}`])
        }
      })

      test('a failure that three requests share is an object', async () => {
        await using app = await open()
        const asked = ['fails', 'fails', 'fails'].map((path) => app.ask(path))
        await app.inside
        await expect.poll(() => app.arrived()).toBe(3)
        await turn()
        app.gate.open()
        const failures = await Promise.all(asked)
        expect(failures.map(({ status }) => status)).toEqual([503, 503, 503])
        const shared = failures.filter(({ body }) => body.includes('origin-failed'))
        expect(shared).toHaveLength(2)
        for (const { body } of shared)
          expect(JSON.parse(body).data ?? JSON.parse(body)).toMatchObject({ code: 'origin-failed' })
      })

      test('problems are objects', async () => {
        await using app = await open()
        const none = await app.ask('object', post('a'))
        const held = app.ask('held', post('a', 'held'))
        await app.inside
        const busy = await app.ask('held', post('a', 'held'))
        app.gate.open()
        await held
        const other = await app.ask('held', post('b', 'held'))
        const problems = [none, busy, other]
        expect(problems.map(({ status }) => status)).toEqual([400, 409, 422])
        for (const { kind, body } of problems) {
          expect(kind).toBe('object')
          const said = JSON.parse(body)
          expect((said.data ?? said).code).toMatch(/^idempotency-/)
        }
      })
    })
  })
})
