// The contract of an adapter for idempotency keys, as a test suite. Two apps share one store, so
// that most replays come from another process than the run.

import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { connect } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { gunzipSync } from 'node:zlib'
import { createStampede, type IdempotencyOutcome, type StampedeStore } from '@stampede/core'
import { describe, expect, it } from 'vitest'
import { createGate } from './gate.ts'
import {
  type AppOptions,
  countRuns,
  type Got,
  gated,
  type IdempotencyAdapter,
  type Layer,
  type Post,
  post,
  type Said,
  type Visit,
} from './idempotency-adapter.ts'

export interface IdempotencyAdapterBench {
  /** Opens the stores of two processes on the same empty data. With one process, `a` is `b`. */
  open(): Promise<{ a: StampedeStore; b: StampedeStore }>
}

type VisitHandler = (visit: Visit) => Said | Promise<Said>

const replayed = ({ headers }: Got) => headers['idempotency-replayed'] === 'true'
const code = ({ body }: Got): string => JSON.parse(body.toString()).code
/** Fields that may differ between a response and its replay. */
const FRESH = /^(date|connection|keep-alive|transfer-encoding|content-length|idempotency-replayed)$/
const kept = ({ status, fields, body }: Got) => ({
  status,
  fields: fields.filter(([name]) => !FRESH.test(name)).sort(),
  body: body.toString('latin1'),
})
/** The start of a request that a test writes to a socket. */
const HEAD = 'POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nX-User: ada\r\n'
const failure = (answer?: number) => Object.assign(new Error('of the handler'), { answer })

/** The response as sent, without its date. */
const wire = ({ status, fields, body }: Got) => ({
  status,
  fields: fields.filter(([name]) => name !== 'date'),
  body: body.toString('latin1'),
})

/** Wraps a store. Counts the replies `busy`, and lets `finish` wait at a gate. */
function watch({ idempotency }: StampedeStore) {
  const watched = { busy: 0, gate: { opened: Promise.resolve(), open() {} } }
  const [begin, finish] = [idempotency.begin, idempotency.finish]
  idempotency.begin = async (...args) => {
    const reply = await begin.apply(idempotency, args)
    if (reply.status === 'busy') watched.busy += 1
    return reply
  }
  idempotency.finish = async (...args) => {
    await watched.gate.opened
    return finish.apply(idempotency, args)
  }
  return watched
}

export function idempotencyAdapterContract(
  adapter: IdempotencyAdapter,
  bench: IdempotencyAdapterBench,
): void {
  /** Starts the same app as `a` and `b`, which are two processes for the store. */
  async function start(
    handler: VisitHandler = () => ({}),
    more: Partial<Omit<AppOptions, 'visit' | 'stampede'>> = {},
  ) {
    const outcomes: IdempotencyOutcome[] = []
    const { visit, runs } = countRuns(handler)
    const openApp = async (store: StampedeStore) => {
      const watched = watch(store)
      const stampede = createStampede({ store })
      stampede.on('idempotency.answered', ({ outcome }) => void outcomes.push(outcome))
      return { watched, stampede, app: await adapter.start({ stampede, visit, ...more }) }
    }
    const stores = await bench.open()
    const a = await openApp(stores.a)
    const b = stores.b === stores.a ? a : await openApp(stores.b)
    return {
      outcomes,
      stampede: a.stampede,
      a: (path = '/orders', with_: Post = {}) => post(a.app.url + path, with_),
      b: (path = '/orders', with_: Post = {}) => post(b.app.url + path, with_),
      port: Number(new URL(a.app.url).port),
      runs: (path = '/orders') => runs(path),
      idle: () => expect.poll(() => a.stampede.stats().idempotency.running).toBe(0),
      /**
       * Resolves when `b` has found the key busy. In one process this cannot be observed, so time
       * passes.
       */
      async waits() {
        if (a === b) await new Promise((resolve) => setTimeout(resolve, 50))
        else await expect.poll(() => b.watched.busy).toBeGreaterThan(0)
      },
      /** Delays each result of `a` until the returned function is called. */
      hold() {
        a.watched.gate = createGate()
        return a.watched.gate.open
      },
      async [Symbol.asyncDispose]() {
        for (const { app, stampede } of new Set([a, b])) {
          await app[Symbol.asyncDispose]()
          await stampede.close()
        }
      },
    }
  }

  describe(`idempotency on ${adapter.name}`, () => {
    describe('an answer', () => {
      it.each(adapter.ways)(
        '%s: byte for byte and field for field the same to a retry',
        async (way) => {
          await using apps = await start()
          const path = `/ways/${way}`
          const first = await apps.a(path)
          expect([first.cut, replayed(first)]).toEqual([false, false])
          expect(first.status).toBeLessThan(400)
          // The first replay comes from the store, the second one from memory.
          for (const ask of [apps.b, apps.b, apps.a]) {
            const retry = await ask(path)
            expect(replayed(retry)).toBe(true)
            expect(kept(retry)).toEqual(kept(first))
            expect(retry.headers.date).toMatch(/GMT$/)
            expect(retry.headers['transfer-encoding']).toBeUndefined()
            const length = retry.status === 204 ? undefined : String(first.body.byteLength)
            expect(retry.headers['content-length']).toBe(length)
          }
          expect(apps.runs(path)).toBe(1)
          const outcomes = apps.outcomes.map((outcome) => outcome.replace('-l1', ''))
          expect(outcomes).toEqual(['started', 'replayed', 'replayed', 'replayed'])
        },
      )

      it.each(adapter.ways)(
        '%s: the first client gets what it would get without keys',
        async (way) => {
          await using apps = await start()
          await using bare = await start(undefined, { mounts: [] })
          const path = `/ways/${way}`
          expect(wire(await apps.a(path))).toEqual(wire(await bare.a(path)))
        },
      )

      it('reaches no client before the store has it', async () => {
        await using apps = await start(() => ({ status: 201, body: 'done' }))
        const release = apps.hold()
        let got: Got | undefined
        const asked = apps.a().then((response) => {
          got = response
        })
        await expect.poll(() => apps.runs()).toBe(1)
        await new Promise((resolve) => setTimeout(resolve, 30))
        expect(got).toBeUndefined()
        release()
        await asked
        expect([got?.status, String(got?.body)]).toEqual([201, 'done'])
      })

      it('of a stream comes as it is made, but for its end', async () => {
        const source = new PassThrough()
        await using apps = await start(() => ({ body: source }))
        const release = apps.hold()
        const socket = connect(apps.port, '127.0.0.1').setEncoding('latin1')
        let text = ''
        socket.on('data', (data: string) => {
          text += data
        })
        socket.write(`${HEAD}Connection: close\r\nContent-Length: 2\r\n\r\n{}`)
        await expect.poll(() => apps.runs()).toBe(1)
        source.write('data: 1\n\n')
        await expect.poll(() => text).toContain('data: 1\n\n')
        source.end('data: 2\n\n')
        await new Promise((resolve) => setTimeout(resolve, 30))
        expect(text).not.toContain('\r\n0\r\n')
        release()
        await once(socket, 'close')
        expect(text).toMatch(/data: 2\n\n\r\n0\r\n\r\n$/)
      })

      it('keeps ETag and Cache-Control, and gives no cookie to a retry', async () => {
        const headers = { etag: '"v"', 'cache-control': 'no-cache', 'set-cookie': ['a=1', 'b=2'] }
        await using apps = await start(() => ({ headers, body: 'x' }))
        expect((await apps.a()).headers).toMatchObject(headers)
        const retry = await apps.b()
        expect(retry.headers).toMatchObject({ etag: '"v"', 'cache-control': 'no-cache' })
        expect(retry.headers['set-cookie']).toBeUndefined()
      })

      it('leaves CORS, tracing and limits to the request at hand, and merges Vary', async () => {
        let requests = 0
        const outside: Layer = (req, res, next) => {
          requests += 1
          res.setHeader('Access-Control-Allow-Origin', req.headers.origin ?? '')
          res.setHeader('Vary', 'Origin')
          res.setHeader('X-Request-Id', `r${requests}`)
          res.setHeader('RateLimit', `remaining=${10 - requests}`)
          next()
        }
        const said = { headers: { vary: 'Origin, Accept-Language', 'x-own': 'yes' }, body: 'x' }
        await using apps = await start(() => said, { outside: [outside] })
        await apps.a('/orders', { headers: { origin: 'https://a.example' } })
        const retry = await apps.b('/orders', { headers: { origin: 'https://b.example' } })
        expect(replayed(retry)).toBe(true)
        expect(retry.headers).toMatchObject({
          'access-control-allow-origin': 'https://b.example',
          vary: 'Origin, Accept-Language',
          'x-request-id': 'r2',
          ratelimit: 'remaining=8',
          'x-own': 'yes',
        })
      })

      it.each(['outside', 'inside'] as const)(
        'compressed %s is readable by a client that takes gzip, and by one that does not',
        async (where) => {
          const text = 'stampede '.repeat(500)
          const said = { headers: { 'content-type': 'text/plain' }, body: text }
          await using apps = await start(() => said, { [where]: ['gzip'] })
          const gzip = { headers: { 'accept-encoding': 'gzip' } }
          const first = await apps.a('/orders', gzip)
          expect(first.headers['content-encoding']).toBe('gzip')
          expect(gunzipSync(first.body).toString()).toBe(text)
          const plain = await apps.b()
          expect([replayed(plain), plain.headers['content-encoding']]).toEqual([true, undefined])
          expect(plain.body.toString()).toBe(text)
          const again = await apps.b('/orders', gzip)
          const coded = again.headers['content-encoding'] === 'gzip'
          expect(String(coded ? gunzipSync(again.body) : again.body)).toBe(text)
          expect(apps.runs()).toBe(1)
        },
      )

      const big = 'x'.repeat(5_000)
      const stream = () => Readable.from([big.slice(0, 2_500), big.slice(2_500)])
      it.each<[string, () => Said]>([
        ['at once', () => ({ body: big })],
        ['at once, with its length', () => ({ body: big, headers: { 'content-length': '5000' } })],
        ['as a stream', () => ({ body: stream() })],
        [
          'as a stream, with its length',
          () => ({ body: stream(), headers: { 'content-length': '5000' } }),
        ],
      ])(
        'that is too large, %s, reaches its client whole, and is not made again',
        async (_, say) => {
          const handler = () => {
            const { headers, ...said } = say()
            return { status: 201, ...said, headers: { location: '/orders/7', ...headers } }
          }
          await using apps = await start(handler, { rules: { maxBodyBytes: 4_999 } })
          const first = await apps.a()
          expect([first.status, first.cut, String(first.body)]).toEqual([201, false, big])
          // The response is not retained, so it is sent before the store has the result. Await
          // that.
          await apps.idle()
          for (const ask of [apps.b, apps.a]) {
            const retry = await ask()
            expect([retry.status, code(retry)]).toEqual([409, 'idempotency-response-not-retained'])
            expect(retry.headers.location).toBe('/orders/7')
            expect(JSON.parse(String(retry.body)).originalStatus).toBe(201)
          }
          expect(apps.runs()).toBe(1)
        },
      )

      it.each([400, 402, 404, 409, 410, 422])('with %d is kept', async (status) => {
        await using apps = await start(({ run }) => ({ status, body: `run ${run}` }))
        await apps.a()
        const retry = await apps.b()
        expect([retry.status, String(retry.body), replayed(retry)]).toEqual([status, 'run 1', true])
      })

      it.each([401, 403, 408, 425, 429, 500, 503])(
        'with %d is not: the retry runs',
        async (status) => {
          const handler = ({ run }: Visit) =>
            run === 1
              ? { status, headers: { 'retry-after': '1' } }
              : { status: 201, body: `run ${run}` }
          await using apps = await start(handler)
          const first = await apps.a()
          expect([first.status, first.headers['retry-after']]).toEqual([status, '1'])
          const retry = await apps.b()
          expect([retry.status, String(retry.body), replayed(retry)]).toEqual([201, 'run 2', false])
        },
      )

      it('with 503 that is retried with another body is refused, and the first request is still free', async () => {
        await using apps = await start(({ run }) => ({ status: run === 1 ? 503 : 201 }))
        await apps.a()
        const other = await apps.b('/orders', { body: '{"amount":2}' })
        expect([other.status, code(other)]).toEqual([422, 'idempotency-key-reused'])
        expect((await apps.b()).status).toBe(201)
        expect(apps.runs()).toBe(2)
      })

      it('is what an error handler outside made of what was thrown: 400 is kept, 500 is released', async () => {
        const status = (path: string) => (path.startsWith('/bad') ? 400 : 500)
        await using apps = await start(({ req }) => {
          throw failure(status(req.url ?? ''))
        })
        const first = await apps.a('/bad')
        expect([first.status, String(first.body)]).toEqual([
          400,
          '{"error":"Error: of the handler"}',
        ])
        expect(kept(await apps.b('/bad'))).toEqual(kept(first))
        for (const ask of [apps.a, apps.b]) {
          const failed = await ask('/broken', { key: 'other' })
          expect([failed.status, failed.cut, replayed(failed)]).toEqual([500, false, false])
        }
        expect([apps.runs('/bad'), apps.runs('/broken')]).toEqual([1, 2])
      })

      it('of the framework to what was thrown is released', async () => {
        await using apps = await start(({ run }) => {
          if (run === 1) throw failure()
          return { status: 201 }
        })
        expect((await apps.a()).status).toBe(500)
        expect((await apps.b()).status).toBe(201)
      })

      it.each(adapter.odd)('%s: the first answer counts, and nothing hangs', async (name) => {
        await using apps = await start()
        const first = await apps.a(`/odd/${name}`)
        expect([first.status, String(first.body), first.cut]).toEqual([201, '"first"', false])
        expect(kept(await apps.b(`/odd/${name}`))).toEqual(kept(first))
        expect(apps.runs(`/odd/${name}`)).toBe(1)
      })

      it('trailers: the first client has them, a retry has the rest', async () => {
        await using apps = await start()
        const first = await apps.a('/odd/trailers')
        expect([String(first.body), first.trailers['x-sum']]).toEqual(['"first"', '7'])
        const retry = await apps.b('/odd/trailers')
        expect([retry.status, String(retry.body), retry.trailers]).toEqual([201, '"first"', {}])
        expect(retry.headers.trailer).toBeUndefined()
      })

      it('of which the handler says what becomes of it', async () => {
        const say = ({ attempt, req }: Visit) => {
          const word = req.url?.slice(1) as 'keep' | 'release' | 'uncertain' | 'withoutBody'
          attempt?.[word]()
          return { status: word === 'keep' ? 500 : 200, body: 'said' }
        }
        await using apps = await start(say)
        const retried = async (word: string) => {
          expect(String((await apps.a(`/${word}`, { key: word })).body)).toBe('said')
          const retry = await apps.b(`/${word}`, { key: word })
          return [retry.status, apps.runs(`/${word}`)]
        }
        expect(await retried('keep')).toEqual([500, 1])
        expect(await retried('release')).toEqual([200, 2])
        expect(await retried('uncertain')).toEqual([409, 1])
        expect(await retried('withoutBody')).toEqual([409, 1])
      })

      it('that never comes is given up after maxHoldMs, and the next request recovers', async () => {
        const handler = ({ run, attempt }: Visit) =>
          run > 1 ? { body: `${attempt?.isRecovery}` } : new Promise<Said>(() => {})
        await using apps = await start(handler, { rules: { leaseMs: 200, maxHoldMs: 300 } })
        const client = new AbortController()
        const hung = apps.a('/orders', { signal: client.signal })
        await expect.poll(() => apps.runs()).toBe(1)
        await expect
          .poll(async () => String((await apps.b()).body), { interval: 25, timeout: 3_000 })
          .toBe('true')
        client.abort()
        expect((await hung).cut).toBe(true)
        expect(apps.runs()).toBe(2)
      })
    })

    describe('a client', () => {
      it('that left before the answer finds it when it comes again', async () => {
        const { handler, atWork, letGo } = gated()
        await using apps = await start(handler)
        const client = new AbortController()
        const lost = apps.a('/orders', { signal: client.signal })
        const { res } = await atWork
        const left = once(res, 'close')
        client.abort()
        await Promise.all([lost, left])
        expect((await apps.b()).status).toBe(409)
        letGo()
        await apps.idle()
        const retry = await apps.b()
        expect([retry.status, String(retry.body), replayed(retry)]).toEqual([201, 'done', true])
        expect(apps.runs()).toBe(1)
      })

      it('that left during a stream is told that it was done, and it is not done again', async () => {
        const source = new PassThrough()
        let at: Visit | undefined
        await using apps = await start((visit) => {
          at = visit
          return { status: 201, body: source, headers: { location: '/orders/7' } }
        })
        const client = new AbortController()
        const lost = apps.a('/orders', { signal: client.signal })
        await expect.poll(() => at?.res).toBeDefined()
        const left = once((at as Visit).res, 'close')
        source.write('the first half')
        await expect.poll(() => at?.res.headersSent).toBe(true)
        client.abort()
        await Promise.all([lost, left])
        source.end()
        await apps.idle()
        const retry = await apps.b()
        expect([retry.status, code(retry)]).toEqual([409, 'idempotency-response-not-retained'])
        expect(retry.headers.location).toBe('/orders/7')
        expect(apps.runs()).toBe(1)
      })

      it('that leaves during a replay changes nothing for its next try', async () => {
        const big = 'x'.repeat(900_000)
        await using apps = await start(() => ({ body: big }))
        await apps.a()
        const socket = connect(apps.port, '127.0.0.1')
        socket.write(
          `${HEAD}Content-Type: application/json\r\nContent-Length: 12\r\n\r\n{"amount":1}`,
        )
        await once(socket, 'data')
        socket.resetAndDestroy()
        for (const ask of [apps.a, apps.b]) expect(String((await ask()).body)).toBe(big)
        expect(apps.runs()).toBe(1)
      })

      it('whose duplicate waits may leave, and nothing stays behind', async () => {
        const { handler, atWork, letGo } = gated()
        await using apps = await start(handler, { rules: { onBusy: 'wait' } })
        const first = apps.a()
        await atWork
        const client = new AbortController()
        const waiting = apps.b('/orders', { signal: client.signal })
        const patient = apps.b()
        await apps.waits()
        client.abort()
        expect((await waiting).cut).toBe(true)
        letGo()
        expect(kept(await patient)).toEqual(kept(await first))
        const after = () => apps.outcomes.map((outcome) => outcome.replace(/-.*/, ''))
        await expect.poll(after).toEqual(['started', 'replayed', 'replayed'])
      })

      it.each(['reject', 'wait'])(
        'may send its request twice in one packet (%s): both are answered, one runs',
        async (onBusy) => {
          const { handler, atWork, letGo } = gated()
          await using apps = await start(handler, { rules: { onBusy } })
          const socket = connect(apps.port, '127.0.0.1').setEncoding('latin1')
          const one = `${HEAD}Content-Length: 2\r\n\r\n{}`
          let text = ''
          socket.on('data', (data: string) => {
            text += data
          })
          socket.write(one + one)
          await atWork
          if (onBusy === 'reject') await expect.poll(() => apps.outcomes).toContain('in-progress')
          letGo()
          const status = () => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, each]) => each)
          await expect.poll(status).toEqual(['201', onBusy === 'reject' ? '409' : '201'])
          socket.destroy()
          expect(apps.runs()).toBe(1)
        },
      )

      it('that asks whether to send its body is told to, and then answered, each time', async () => {
        await using apps = await start(({ run }) => ({ body: `run ${run}` }))
        const ask = async () => {
          const socket = connect(apps.port, '127.0.0.1').setEncoding('latin1')
          let text = ''
          socket.on('data', (data: string) => {
            text += data
          })
          socket.write(
            `${HEAD}Connection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n`,
          )
          await expect.poll(() => text).toBe('HTTP/1.1 100 Continue\r\n\r\n')
          socket.write('{}')
          await once(socket, 'close')
          return text
        }
        for (const each of [await ask(), await ask()]) expect(each).toMatch(/ 200 OK.*run 1$/s)
      })

      it.each(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])(
        'that sends a key with %s is not held to it',
        async (method) => {
          await using apps = await start()
          for (const _ of [1, 2]) {
            const got = await apps.a('/orders', { method, body: '' })
            expect([got.status, replayed(got)]).toEqual([200, false])
          }
          expect([apps.runs(), apps.outcomes]).toEqual([2, []])
        },
      )

      it('whose request is larger than may be compared is refused, and nothing runs', async () => {
        await using apps = await start(undefined, { rules: { maxRequestBytes: 10 } })
        const got = await apps.a()
        expect([got.status, code(got)]).toEqual([413, 'idempotency-request-too-large'])
        expect(apps.runs()).toBe(0)
      })

      it('whose request is too large keeps its connection', async () => {
        await using apps = await start(undefined, { rules: { maxRequestBytes: 10 } })
        const socket = connect(apps.port, '127.0.0.1').setEncoding('latin1')
        let text = ''
        socket.on('data', (data: string) => {
          text += data
        })
        socket.write(`${HEAD}Transfer-Encoding: chunked\r\n\r\n`)
        const chunk = 'x'.repeat(0xffff)
        for (let i = 0; i < 10; i += 1) socket.write(`ffff\r\n${chunk}\r\n`)
        await expect.poll(() => text).toContain('HTTP/1.1 413')
        socket.write(`0\r\n\r\n${HEAD}Content-Length: 2\r\n\r\n{}`)
        await expect.poll(() => text).toContain('HTTP/1.1 200')
        socket.destroy()
        expect(apps.runs()).toBe(1)
      })

      it.each<[string, () => unknown]>([
        [
          'throws',
          () => {
            throw new Error('scope')
          },
        ],
        ['rejects', () => Promise.reject(new Error('scope'))],
      ])('whose scope %s gets the error of the framework, and nothing runs', async (_, scope) => {
        await using apps = await start(undefined, { rules: { scope } })
        expect((await apps.a()).status).toBe(500)
        expect(apps.runs()).toBe(0)
      })

      it('that may no longer do it is refused by whoever guards the route, before any replay', async () => {
        let allowed = true
        const guard: Layer = (_req, res, next) => {
          if (allowed) return next()
          res.statusCode = 403
          res.end()
        }
        await using apps = await start(() => ({ status: 201 }), { outside: [guard] })
        await apps.a()
        allowed = false
        const refused = await apps.b()
        expect([refused.status, replayed(refused)]).toEqual([403, false])
      })
    })

    describe('the same key', () => {
      it('is the same request with a fresh token, and another one of another user or tenant', async () => {
        type Fields = { headers: Record<string, string> }
        const scope = ({ headers }: Fields) => `${headers['x-tenant']} ${headers['x-user']}`
        await using apps = await start(({ run }) => ({ body: `run ${run}` }), { rules: { scope } })
        const ask = async (user: string, tenant: string, token: string) => {
          const headers = { 'x-tenant': tenant, authorization: `Bearer ${token}` }
          return String((await apps.b('/orders', { user, headers })).body)
        }
        expect(await ask('1', 'acme', 'old')).toBe('run 1')
        expect(await ask('1', 'acme', 'new')).toBe('run 1')
        expect(await ask('2', 'acme', 'old')).toBe('run 2')
        expect(await ask('1', 'umbrella', 'old')).toBe('run 3')
      })

      it('with another query, or under another mount of the same routes, is another request', async () => {
        await using apps = await start(undefined, { mounts: ['/v1', '/v2'] })
        expect((await apps.a('/v1/orders?a=1&b=2')).status).toBe(200)
        expect(replayed(await apps.b('/v1/orders?b=2&a=1'))).toBe(true)
        for (const path of [
          '/v1/orders?a=1',
          '/v1/orders?a=1&b=3',
          '/v2/orders?a=1&b=2',
          '/v1/refunds',
        ]) {
          expect((await apps.b(path)).status, path).toBe(422)
        }
        expect(apps.runs('/v2/orders')).toBe(0)
      })

      it('of another method is another request', async () => {
        await using apps = await start()
        await apps.a()
        expect((await apps.b('/orders', { method: 'PATCH' })).status).toBe(422)
      })
    })

    it('keeps the context of the request for the handler', async () => {
      const storage = new AsyncLocalStorage<string>()
      const outside: Layer = (req, _res, next) => storage.run(String(req.headers['x-user']), next)
      const handler = async ({ attempt }: Visit) => {
        const stepped = await attempt?.step('look', () => storage.getStore())
        return { body: `${storage.getStore()} ${stepped}` }
      }
      await using apps = await start(handler, { outside: [outside] })
      expect(String((await apps.a()).body)).toBe('ada ada')
    })
  })
}
