// Requests that no client should send, to apps with and without Stampede. An app behind the cache
// sends the response that it would send alone. No request crashes the process, and none changes
// objects that all requests share.

import { createStampede, type Stampede } from '@stampede/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  currentFrameworks,
  type Handler,
  olderFrameworks,
  type RunningApp,
} from '../harness/apps.ts'
import {
  exchangeBytes,
  HOSTILE_REQUESTS,
  requestBytes,
  type WireAnswer,
} from '../harness/hostile-wire.ts'
import {
  currentIdempotentFrameworks,
  olderIdempotentFrameworks,
} from '../harness/idempotent-apps.ts'
import { ofThisRun } from '../harness/versions.ts'
import { METHOD, METHODS, withMethod } from './setting.ts'

const portOf = ({ url }: RunningApp): number => Number(new URL(url).port)

/**
 * Fields that differ between any two responses, fields that Stampede adds, and framing, which a
 * complete stored response has of its own.
 */
const OURS = [
  'date',
  'age',
  'cache-status',
  'etag',
  'surrogate-key',
  'connection',
  'content-length',
  'transfer-encoding',
]

const comparable = ({ status, fields, body }: WireAnswer): WireAnswer => ({
  status,
  fields: fields.filter(([name]) => !OURS.includes(name)),
  body,
})

const isUnpolluted = (): void => {
  expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  expect(Object.keys(Object.prototype)).toEqual([])
}

describe.each([...ofThisRun(currentFrameworks, olderFrameworks)])(
  '$name behind the cache',
  ({ start }) => {
    /** Responds with the parts of the request that the key covers. */
    const handler: Handler = ({ path, url, headers }) => ({
      headers: {
        vary: 'X-Lang, constructor, __proto__',
        'surrogate-key': '__proto__ constructor hasOwnProperty',
        'cache-groups': '"__proto__", "constructor"',
        'content-type': 'text/plain; charset=latin1',
      },
      body: Buffer.from(JSON.stringify([path, url, headers['x-lang'] ?? null]), 'latin1'),
    })
    let bare: RunningApp
    let cached: RunningApp
    let stampede: Stampede
    beforeAll(async () => {
      stampede = createStampede()
      const tags = ['__proto__', 'constructor']
      const options = { stampede, methods: METHODS, ttlMs: 3_600_000, tags }
      bare = await start([], handler)
      cached = await start(
        { ...options, cookies: 'ignore', query: { ignore: ['toString'] } },
        handler,
      )
    })
    afterAll(async () => {
      await bare[Symbol.asyncDispose]()
      await cached[Symbol.asyncDispose]()
      await stampede.close()
    })

    it.each(Object.entries(HOSTILE_REQUESTS))(
      'sends the same response as without the cache: %s',
      async (name, request) => {
        const bytes = withMethod(request)
        const alone = comparable(await exchangeBytes(portOf(bare), bytes))
        for (const time of ['first', 'second', 'third']) {
          const answer = comparable(await exchangeBytes(portOf(cached), bytes))
          // A 416 from the cache also names the length, which the app alone does not.
          if (name === 'a range beyond all numbers' && answer.status === 416) continue
          expect(answer, time).toEqual(alone)
        }
        isUnpolluted()
      },
    )

    it('serves hits for the requests that the cache accepts', async () => {
      const own = withMethod(requestBytes('GET /own HTTP/1.1', ['Host: a']))
      await exchangeBytes(portOf(cached), own)
      const before = stampede.stats().hits.l1
      await exchangeBytes(portOf(cached), own)
      expect(stampede.stats().hits.l1).toBe(before + 1)
      expect(before).toBeGreaterThan(20)
      expect(stampede.stats().active).toEqual({ flights: 0, leases: 0 })
      await stampede.purge({ tag: '__proto__' })
      const { fields } = await exchangeBytes(portOf(cached), own)
      expect(Object.fromEntries(fields)['cache-status']).toMatch(/fwd=uri-miss/)
    })
  },
)

describe
  .skipIf(METHOD !== 'GET')
  .each([...ofThisRun(currentIdempotentFrameworks, olderIdempotentFrameworks)])(
  '$name behind idempotency keys',
  ({ start }) => {
    const post = (lines: readonly string[], body = '{"a":1}', length = body.length): Buffer =>
      requestBytes(
        'POST /orders HTTP/1.1',
        ['Host: a', 'X-User: u', `Content-Length: ${length}`, ...lines],
        body,
      )
    const json = 'Content-Type: application/json'
    const key = (value: string) => `Idempotency-Key: ${value}`
    const KEYS: ReadonlyArray<readonly [string, readonly string[], number]> = [
      ['missing', [], 400],
      ['empty', [key('')], 400],
      ['an empty string', [key('""')], 400],
      ['a string without its closing quote', [key('"a')], 400],
      ['not text', [key('\xff\xfe\x80')], 400],
      ['a list', [key('"a", "b"')], 400],
      ['two lines', [key('"a"'), key('"b"')], 400],
      ['two equal lines', [key('"a"'), key('"a"')], 400],
      ['too long', [key(`"${'k'.repeat(256)}"`)], 400],
      ['much too long', [key(`"${'\\"'.repeat(6_000)}"`)], 400],
      ['a string with 3,000 parameters', [key(`"a"${';a=1'.repeat(3_000)}`)], 201],
      ['__proto__', [key('__proto__')], 201],
      ['"constructor"', [key('"constructor"')], 201],
    ]
    const BODIES: ReadonlyArray<readonly [string, string]> = [
      ['a prototype', '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'],
      ['deep nesting', `${'['.repeat(20_000)}${']'.repeat(20_000)}`],
      ['half of a character', '{"a":"\\ud800"}'],
      ['broken JSON', '{"a":'],
      ['bytes that are no text', '\xff\xfe\0'],
      ['very long numbers', `[${'9'.repeat(20_000)}, 1e999999, -0]`],
      ['a repeated name', '{"a":1,"a":2}'],
      ['no bytes', ''],
    ]
    let app: RunningApp
    let stampede: Stampede
    let ran = 0
    beforeAll(async () => {
      stampede = createStampede()
      app = await start({
        stampede,
        visit: async ({ req }) => {
          ran += 1
          for await (const _ of req);
          return { status: 201, body: `order ${ran}` }
        },
      })
    })
    afterAll(async () => {
      await app[Symbol.asyncDispose]()
      await stampede.close()
    })

    it.each(KEYS)(
      'sends the expected status if the key field is %s',
      async (_, lines, expected) => {
        const before = ran
        const { status, body } = await exchangeBytes(portOf(app), post([json, ...lines]))
        expect(status, body).toBe(expected)
        expect(ran - before).toBe(expected === 201 ? 1 : 0)
        if (expected !== 201) return
        expect((await exchangeBytes(portOf(app), post([json, ...lines]))).body).toBe(body)
        expect(ran - before).toBe(1)
        isUnpolluted()
      },
    )

    it.each(BODIES)(
      'runs a request once with the body %s, and replays the response',
      async (name, body) => {
        const before = ran
        const bytes = post([json, key(`"body ${name}"`)], body)
        const first = await exchangeBytes(portOf(app), bytes)
        expect(first.status, first.body).toBe(201)
        expect((await exchangeBytes(portOf(app), bytes)).body).toBe(first.body)
        const other = post([json, key(`"body ${name}"`)], '{"b":2}')
        expect((await exchangeBytes(portOf(app), other)).status).toBe(422)
        expect(ran - before).toBe(1)
        isUnpolluted()
      },
    )

    it('still works after each hostile request', async () => {
      for (const [name, bytes] of Object.entries(HOSTILE_REQUESTS)) {
        const { status } = await exchangeBytes(portOf(app), bytes)
        expect(status, name).not.toBe(500)
      }
      expect((await exchangeBytes(portOf(app), post([json, key('"here"')]))).status).toBe(201)
      expect(stampede.stats().idempotency).toMatchObject({ running: 0, unstored: 0 })
      isUnpolluted()
    })
  },
)
