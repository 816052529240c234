// Koa middlewares in front of the cache that read or change ctx.body. They find the same on a hit
// as on its miss.

import { createRequire } from 'node:module'
import { Readable, Transform } from 'node:stream'
import { createStampede } from '@stampede/core'
import { ManualClock, RecordStore } from '@stampede/core/testing'
import type Koa from 'koa'
import { describe, expect, test } from 'vitest'
import { deferred } from '../../node-http/src/testing/deferred.ts'
import { serve } from '../../node-http/src/testing/raw-client.ts'
import { stampedeCache } from './index.ts'

const require = createRequire(import.meta.url)
const VERSIONS: ReadonlyArray<readonly [string, typeof Koa]> = [
  ['Koa 2', require('koa2')],
  ['Koa 3', require('koa')],
]

const BODIES: Readonly<Record<string, () => unknown>> = {
  'an object': () => ({ a: 1, list: [1, { b: 'é' }] }),
  'an array': () => [1, 'two'],
  'a number': () => 42,
  'a string': () => 'abc é',
  'a Buffer': () => Buffer.from('abc'),
  'a stream': () => Readable.from([Buffer.from('abc '), Buffer.from('def')]),
}

type Change = (body: unknown) => unknown
const isPlain = (body: unknown): body is object =>
  typeof body === 'object' && !Buffer.isBuffer(body) && !(body instanceof Readable)

/** Each layer changes bodies of one kind, and leaves other bodies alone. */
const LAYERS: Readonly<Record<string, Change>> = {
  'a reader': (body) => body,
  'an envelope': (body) => (body instanceof Readable ? body : { data: body }),
  'a pretty-printer': (body) => (isPlain(body) ? JSON.stringify(body, null, 2) : body),
  'a replacer of strings': (body) => (typeof body === 'string' ? body.replace('b', 'X') : body),
  'a transform stream': (body) => (body instanceof Readable ? body.pipe(upperCase()) : body),
  'a change of the body in place'(body) {
    if (Buffer.isBuffer(body)) body.fill('Z')
    if (Array.isArray(body)) body.push('added')
    else if (isPlain(body)) Object.assign(body, { added: true })
    return undefined
  },
}

function upperCase(): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      done(null, chunk.toString().toUpperCase())
    },
  })
}

const kindOf = (body: unknown): string => {
  if (Buffer.isBuffer(body)) return 'Buffer'
  if (body instanceof Readable) return 'Readable'
  return Array.isArray(body) ? 'array' : typeof body
}

const cases = Object.keys(LAYERS).flatMap((layer) =>
  Object.keys(BODIES).map((body) => [layer, body] as const),
)

describe.each(VERSIONS)('middlewares in front of the cache on %s', (_, Application) => {
  async function start(change: Change, make: () => unknown, memory: object) {
    const clock = new ManualClock()
    const stampede = createStampede({ clock, ...memory })
    const seen: string[] = []
    const { promise: gate, resolve: release } = deferred()
    const koa = new Application()
    koa.silent = true
    koa.use(async (ctx, next) => {
      await next()
      seen.push(kindOf(ctx.body))
      const changed = change(ctx.body)
      if (changed !== undefined && changed !== ctx.body) ctx.body = changed
    })
    koa.use(stampedeCache({ stampede, ttlMs: 10_000, staleWhileRevalidateMs: 60_000 }))
    koa.use(async (ctx) => {
      await gate
      ctx.body = make()
    })
    const server = await serve(koa.callback())
    const committed = (n: number) =>
      expect.poll(() => stampede.stats().fills.committed, { interval: 5 }).toBe(n)
    return { clock, committed, release, seen, server, stampede }
  }

  describe.each([
    ['in memory', () => ({})],
    ['in the store alone', () => ({ l1: { maxBytes: 0 }, store: new RecordStore() })],
  ])('a hit %s', (_where, memory) => {
    test.each(cases)(
      'is sent through %s with the same result as the miss: %s',
      async (layer, body) => {
        const [change, make] = [LAYERS[layer], BODIES[body]]
        if (change === undefined || make === undefined) throw new Error('no such case')
        const { clock, committed, release, seen, server, stampede } = await start(
          change,
          make,
          memory(),
        )
        await using _server = server
        const ask = async (method = 'GET') => {
          const answer = await fetch(`http://127.0.0.1:${server.port}/`, { method })
          const [type, length] = ['content-type', 'content-length'].map((name) =>
            answer.headers.get(name),
          )
          return { text: await answer.text(), type, length }
        }
        const asked = [ask(), ask(), ask()]
        await expect.poll(() => stampede.stats().collapsed, { interval: 5 }).toBe(2)
        release()
        const [miss, ...waiters] = await Promise.all(asked)
        await committed(1)
        const hits = [await ask(), await ask()]
        await clock.advance(11_000)
        const stale = await ask()
        await committed(2)
        const answers = [...waiters, ...hits, stale, await ask()]
        const plain = answers.map(({ text, type }) => ({ text, type }))
        expect(plain).toEqual(answers.map(() => ({ text: miss?.text, type: miss?.type })))
        expect(new Set(seen)).toEqual(new Set([kindOf(make())]))
        const isMeasured = !(layer === 'a transform stream' && body === 'a stream')
        const length = isMeasured ? String(Buffer.byteLength(miss?.text ?? '')) : null
        expect((await ask('HEAD')).length).toBe(length)
      },
    )
  })
})
