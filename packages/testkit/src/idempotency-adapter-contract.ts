// The contract of an adapter for idempotency keys, as a suite. It runs two apps on one store, so
// that replays in another process are checked where they could differ.

import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { connect } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { gunzipSync } from 'node:zlib'
import { createStampede, type MemoryStore } from '@stampede/core'
import { type ListTransaction, TransactionDouble } from '@stampede/core/testing'
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

/** The stores for the tests of an idempotency adapter. */
export interface IdempotencyAdapterBench {
  /** Stores of two processes on the same, empty data. With one process, the same store twice. */
  open(): Promise<{ a: MemoryStore; b: MemoryStore }>
}

type VisitHandler = (visit: Visit) => Said | Promise<Said>

const replayed = ({ headers }: Got) => headers['idempotency-replayed'] === 'true'
const code = ({ body }: Got): string => JSON.parse(body.toString()).code
/** Fields that differ for each response. The length is checked separately. */
const FRESH = /^(date|connection|keep-alive|transfer-encoding|content-length|idempotency-replayed)$/
const kept = ({ status, fields, body }: Got) => ({
  status,
  fields: fields.filter(([name]) => !FRESH.test(name)).sort(),
  body: body.toString('latin1'),
})
/** Fields of a request on a socket. */
const HEAD = 'POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nX-User: ada\r\n'
const failure = (answer?: number) => Object.assign(new Error('of the handler'), { answer })

/** The response as sent, without the date. */
/** The order of different fields has no meaning (RFC 9110 §5.3), and a web Headers sorts them. */
const wire = ({ status, fields, body }: Got) => ({
  status,
  fields: fields.filter(([name]) => name !== 'date').toSorted(([a], [b]) => a.localeCompare(b)),
  body: body.toString('latin1'),
})

/** Wraps a store: counts its busy replies, and has a gate at which calls of `finish` wait. */
function watch({ idempotency }: MemoryStore) {
  const watched = { busy: 0, finishing: 0, gate: { opened: Promise.resolve(), open() {} } }
  const [begin, finish] = [idempotency.begin, idempotency.finish]
  idempotency.begin = async (...args) => {
    const reply = await begin.apply(idempotency, args)
    if (reply.status === 'busy') watched.busy += 1
    return reply
  }
  idempotency.finish = async (...args) => {
    watched.finishing += 1
    await watched.gate.opened
    return finish.apply(idempotency, args)
  }
  return watched
}

/** Defines the tests of an adapter for idempotency keys, in Vitest. */
export function idempotencyAdapterContract(
  adapter: IdempotencyAdapter,
  bench: IdempotencyAdapterBench,
): void {
  /** `a` and `b`: the same app in two processes, as far as the store can tell. */
  async function start(
    handler: VisitHandler = () => ({}),
    more: Partial<Omit<AppOptions, 'visit' | 'stampede'>> = {},
  ) {
    const outcomes: string[] = []
    const { visit, runs } = countRuns(handler)
    const transactions = new TransactionDouble()
    const openApp = async (store: MemoryStore) => {
      transactions.addTo(store.idempotency)
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
      transactions,
      stampede: a.stampede,
      a: (path = '/orders', with_: Post = {}) => post(a.app.url + path, with_),
      b: (path = '/orders', with_: Post = {}) => post(b.app.url + path, with_),
      port: Number(new URL(a.app.url).port),
      runs: (path = '/orders') => runs(path),
      /** Resolves when the first process has `count` results for the store. */
      finishing: (count = 1) => expect.poll(() => a.watched.finishing).toBe(count),
      idle: () => expect.poll(() => a.stampede.stats().idempotency.running).toBe(0),
      /**
       * Resolves when the second process has found the key busy. Within one process this is not
       * visible.
       */
      async waits() {
        if (a === b) await new Promise((resolve) => setTimeout(resolve, 50))
        else await expect.poll(() => b.watched.busy).toBeGreaterThan(0)
      },
      /** Until the gate opens, the first process cannot reach the store with a result. */
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

  /** Sends a request on a socket. `got` has what arrives, also before the response has ended. */
  async function openStream({ port, runs }: Awaited<ReturnType<typeof start>>) {
    const socket = connect(port, '127.0.0.1').setEncoding('latin1')
    const got = { text: '' }
    socket.on('data', (data: string) => {
      got.text += data
    })
    socket.write(`${HEAD}Connection: close\r\nContent-Length: 2\r\n\r\n{}`)
    await expect.poll(() => runs()).toBe(1)
    return { socket, got }
  }

  describe(`idempotency on ${adapter.name}`, () => {
    describe('a response', () => {
      it.each(adapter.ways)('is replayed with every byte and field: %s', async (way) => {
        await using apps = await start()
        const path = `/ways/${way}`
        const first = await apps.a(path)
        expect([first.cut, replayed(first)]).toEqual([false, false])
        expect(first.status).toBeLessThan(400)
        // From the store, and then from memory.
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
      })

      it.each(adapter.ways)(
        'is the same for the first client as without the middleware: %s',
        async (way) => {
          await using apps = await start()
          await using bare = await start(undefined, { mounts: [] })
          const path = `/ways/${way}`
          expect(wire(await apps.a(path))).toEqual(wire(await bare.a(path)))
        },
      )

      it('has one of Content-Length and Transfer-Encoding if the handler sets the latter', async () => {
        for (const chunks of [[], ['a'], ['a', 'b']]) {
          await using apps = await start(() => ({
            headers: { 'transfer-encoding': 'chunked' },
            body: Readable.from(chunks),
          }))
          for (const send of [apps.a, apps.a, apps.b]) {
            const got = await send()
            expect([got.status, got.cut, got.body.toString()]).toEqual([
              200,
              false,
              chunks.join(''),
            ])
            const names = got.fields.map(([name]) => name)
            const framing = names.filter((name) =>
              /^(content-length|transfer-encoding)$/.test(name),
            )
            expect(framing, `${chunks}`).toHaveLength(1)
          }
        }
      })

      it('reaches no client before it is stored', async () => {
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

      it('reaches the client while it is streamed, except for its end', async () => {
        const source = new PassThrough()
        await using apps = await start(() => ({ body: source }))
        const release = apps.hold()
        const { socket, got } = await openStream(apps)
        source.write('data: 1\n\n')
        await expect.poll(() => got.text).toContain('data: 1\n\n')
        source.end('data: 2\n\n')
        await new Promise((resolve) => setTimeout(resolve, 30))
        expect(got.text).not.toContain('\r\n0\r\n')
        release()
        await once(socket, 'close')
        expect(got.text).toMatch(/data: 2\n\n\r\n0\r\n\r\n$/)
      })

      it('keeps its last byte until it is stored if the client knows its length', async () => {
        const source = new PassThrough()
        await using apps = await start(() => ({
          body: source,
          headers: { 'content-length': '18' },
        }))
        const release = apps.hold()
        const { socket, got } = await openStream(apps)
        source.write('data: 1\n\n')
        await expect.poll(() => got.text).toContain('data: 1\n\n')
        source.write('data: 2\n\n')
        await expect.poll(() => got.text).toMatch(/data: 2\n/)
        source.end()
        await new Promise((resolve) => setTimeout(resolve, 30))
        expect(got.text).toMatch(/data: 2\n$/)
        release()
        await once(socket, 'close')
        expect(got.text).toMatch(/Content-Length: 18\r\n/i)
        expect(got.text).toMatch(/\r\n\r\ndata: 1\n\ndata: 2\n\n$/)
      })

      it('is replayed with its ETag and Cache-Control, but without cookies', async () => {
        const headers = { etag: '"v"', 'cache-control': 'no-cache', 'set-cookie': ['a=1', 'b=2'] }
        await using apps = await start(() => ({ headers, body: 'x' }))
        expect((await apps.a()).headers).toMatchObject(headers)
        const retry = await apps.b()
        expect(retry.headers).toMatchObject({ etag: '"v"', 'cache-control': 'no-cache' })
        expect(retry.headers['set-cookie']).toBeUndefined()
      })

      it('is replayed with the CORS, tracing and rate limit fields of the current request', async () => {
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
        'is readable for clients with and without gzip if it was compressed %s the middleware',
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
      ])('goes to its client in full if it is too large to store, %s', async (_, say) => {
        const handler = () => {
          const { headers, ...said } = say()
          return { status: 201, ...said, headers: { location: '/orders/7', ...headers } }
        }
        await using apps = await start(handler, { rules: { maxBodyBytes: 4_999 } })
        const first = await apps.a()
        expect([first.status, first.cut, String(first.body)]).toEqual([201, false, big])
        // A response that is not stored is sent before the store has the result.
        await apps.idle()
        for (const ask of [apps.b, apps.a]) {
          const retry = await ask()
          expect([retry.status, code(retry)]).toEqual([409, 'idempotency-response-not-retained'])
          expect(retry.headers.location).toBe('/orders/7')
          expect(JSON.parse(String(retry.body)).originalStatus).toBe(201)
        }
        expect(apps.runs()).toBe(1)
      })

      it.each([400, 402, 404, 409, 410, 422])('is replayed if its status is %d', async (status) => {
        await using apps = await start(({ run }) => ({ status, body: `run ${run}` }))
        await apps.a()
        const retry = await apps.b()
        expect([retry.status, String(retry.body), replayed(retry)]).toEqual([status, 'run 1', true])
      })

      it.each([401, 403, 408, 425, 429, 500, 503])(
        'is not replayed if its status is %d, and a retry runs the handler again',
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

      it('is not sent to a retry with another body, which gets 422, even after a 503', async () => {
        await using apps = await start(({ run }) => ({ status: run === 1 ? 503 : 201 }))
        await apps.a()
        const other = await apps.b('/orders', { body: '{"amount":2}' })
        expect([other.status, code(other)]).toEqual([422, 'idempotency-key-reused'])
        expect((await apps.b()).status).toBe(201)
        expect(apps.runs()).toBe(2)
      })

      it('is replayed if an outer error handler made a 400 of an error, but not if it made a 500', async () => {
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

      it('is not replayed if the framework made it from an error', async () => {
        await using apps = await start(({ run }) => {
          if (run === 1) throw failure()
          return { status: 201 }
        })
        expect((await apps.a()).status).toBe(500)
        expect((await apps.b()).status).toBe(201)
      })

      it.each(adapter.odd)(
        'is sent and replayed as the first of two responses of the handler: %s',
        async (name) => {
          await using apps = await start()
          const first = await apps.a(`/odd/${name}`)
          expect([first.status, String(first.body), first.cut]).toEqual([201, '"first"', false])
          expect(kept(await apps.b(`/odd/${name}`))).toEqual(kept(first))
          expect(apps.runs(`/odd/${name}`)).toBe(1)
        },
      )

      it('has its trailers for the first client only', async () => {
        await using apps = await start()
        const first = await apps.a('/odd/trailers')
        expect([String(first.body), first.trailers['x-sum']]).toEqual(['"first"', '7'])
        const retry = await apps.b('/odd/trailers')
        expect([retry.status, String(retry.body), retry.trailers]).toEqual([201, '"first"', {}])
        expect(retry.headers.trailer).toBeUndefined()
      })

      it('is replayed, released or uncertain as the handler decides', async () => {
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
    })

    describe('a response in a transaction', () => {
      const inTransaction = (handler?: VisitHandler, rules: object = {}) =>
        start(handler, { rules: { transaction: true, ...rules } })
      const txOf = ({ attempt }: Visit) => attempt?.tx as unknown as ListTransaction
      const writing =
        (say: (visit: Visit) => Said | Promise<Said>): VisitHandler =>
        async (visit) => {
          await txOf(visit).write(`run ${visit.run}`)
          return say(visit)
        }

      it.each(adapter.ways)(
        'is the same for the first client and a retry as without a transaction: %s',
        async (way) => {
          await using apps = await inTransaction()
          await using bare = await start(undefined, { mounts: [] })
          const path = `/ways/${way}`
          const first = await apps.a(path)
          expect(wire(first)).toEqual(wire(await bare.a(path)))
          const retry = await apps.b(path)
          expect([replayed(retry), kept(retry)]).toEqual([true, kept(first)])
        },
      )

      it.each(adapter.odd)('is the first of two responses of the handler: %s', async (name) => {
        await using apps = await inTransaction()
        const first = await apps.a(`/odd/${name}`)
        expect([first.status, String(first.body), first.cut]).toEqual([201, '"first"', false])
        expect(kept(await apps.b(`/odd/${name}`))).toEqual(kept(first))
      })

      it.each([
        ['with its length', { 'content-length': '18' }],
        ['without its length', {}],
      ])('sends no byte before the commit, as a stream %s', async (_, headers) => {
        const source = new PassThrough()
        await using apps = await inTransaction(writing(() => ({ body: source, headers })))
        const release = apps.hold()
        const { socket, got } = await openStream(apps)
        source.write('data: 1\n\n')
        source.end('data: 2\n\n')
        await apps.finishing()
        expect([got.text, apps.transactions.writes]).toEqual(['', []])
        release()
        await once(socket, 'close')
        expect(got.text).toMatch(/^HTTP\/1.1 200 .*data: 1.*data: 2\n\n/s)
        expect(apps.transactions.writes).toEqual(['run 1'])
      })

      it('sends no head, early hints or first chunk before the commit', async () => {
        const gate = createGate()
        await using apps = await inTransaction(async (visit) => {
          const { res } = visit
          res.writeEarlyHints?.({ link: '</a.css>; rel=preload' })
          res.statusCode = 201
          res.flushHeaders()
          const written = await new Promise((resolve) => res.write('first', resolve))
          await txOf(visit).write(`${res.headersSent} ${res.writableEnded} ${written}`)
          await gate.opened
          throw failure()
        })
        const { socket, got } = await openStream(apps)
        expect(got.text).toBe('')
        const closed = once(socket, 'close')
        gate.open()
        await apps.finishing()
        socket.destroy()
        await closed
        expect([got.text.includes('first'), apps.transactions.writes]).toEqual([false, []])
      })

      it.each([500, 503, 403, 429])(
        'rolls back if its status is %d, and a retry runs the handler as the first',
        async (status) => {
          const handler = writing(({ run, attempt }) => ({
            status: run === 1 ? status : 201,
            body: `run ${run} ${attempt?.isRecovery}`,
          }))
          await using apps = await inTransaction(handler)
          expect((await apps.a()).status).toBe(status)
          expect(apps.transactions.writes).toEqual([])
          expect(String((await apps.b()).body)).toBe('run 2 false')
          expect(apps.transactions.writes).toEqual(['run 2'])
        },
      )

      it('rolls back if the handler throws, also after the first bytes', async () => {
        const handler = writing(({ run, res }) => {
          if (run === 1) throw failure()
          if (run === 2) {
            res.write('the first half')
            throw failure()
          }
          return { status: 201 }
        })
        await using apps = await inTransaction(handler)
        expect((await apps.a()).status).toBe(500)
        expect(String((await apps.b()).body)).not.toContain('half')
        await expect.poll(async () => (await apps.b()).status).toBe(201)
        expect([apps.runs(), apps.transactions.writes]).toEqual([3, ['run 3']])
      })

      it('commits if the response to an error is kept, but no writes before rollback()', async () => {
        const handler = writing(async ({ run, attempt }) => {
          if (run === 2) await attempt?.rollback()
          throw failure(409)
        })
        await using apps = await inTransaction(handler)
        for (const key of ['1', '2'])
          for (const ask of [apps.a, apps.b])
            expect((await ask('/orders', { key })).status).toBe(409)
        expect([apps.runs(), apps.transactions.writes]).toEqual([2, ['run 1']])
      })

      it('rolls back if the handler destroys its response', async () => {
        await using apps = await inTransaction(
          writing(({ run, res }) => {
            if (run > 1) return { status: 201 }
            res.write('the first half')
            res.destroy()
            return new Promise<Said>(() => {})
          }),
        )
        expect((await apps.a()).status).toBe(0)
        await apps.idle()
        expect((await apps.b()).status).toBe(201)
        expect(apps.transactions.writes).toEqual(['run 2'])
      })

      it('commits a 5xx after keep(), and a refusal without its writes after rollback()', async () => {
        const handler = writing(async ({ attempt, req }) => {
          if (req.url === '/keep') attempt?.keep()
          else await attempt?.rollback()
          return { status: req.url === '/keep' ? 500 : 409 }
        })
        await using apps = await inTransaction(handler)
        for (const [path, status, writes] of [
          ['/keep', 500, ['run 1']],
          ['/roll-back', 409, ['run 1']],
        ] as const) {
          for (const ask of [apps.a, apps.b])
            expect((await ask(path, { key: path })).status).toBe(status)
          expect([apps.runs(path), apps.transactions.writes]).toEqual([1, writes])
        }
      })

      it('cannot be released or uncertain', async () => {
        const codes: unknown[] = []
        await using apps = await inTransaction(({ attempt }) => {
          for (const word of ['release', 'uncertain'] as const) {
            try {
              attempt?.[word]()
            } catch (error) {
              codes.push((error as { code: unknown }).code)
            }
          }
          return {}
        })
        await apps.a()
        expect(codes).toEqual(['ERR_STAMPEDE_OPTION', 'ERR_STAMPEDE_OPTION'])
      })

      it.each([
        ['failed', 500, 'idempotency-transaction-failed'],
        ['ended', 500, 'idempotency-transaction-ended'],
        ['unknown', 503, 'idempotency-outcome-unknown'],
        ['stale, without a record', 503, 'idempotency-outcome-unknown'],
      ] as const)('is replaced if the commit is %s', async (reply, status, expected) => {
        const headers = { 'x-own': 'yes', 'content-type': 'text/plain' }
        const handler = writing(() => ({ status: 201, headers, body: 'done' }))
        await using apps = await inTransaction(handler)
        apps.transactions.next = reply
        const first = await apps.a()
        expect([first.status, code(first), first.cut]).toEqual([status, expected, false])
        expect(first.headers['x-own']).toBeUndefined()
        expect(first.headers['retry-after']).toBe(status === 503 ? '1' : undefined)
        const retry = await apps.b()
        expect([retry.status, String(retry.body)]).toEqual([201, 'done'])
        expect([apps.transactions.writes, apps.transactions.open]).toEqual([['run 2'], 0])
      })

      it('is replaced by that of another attempt that committed first', async () => {
        await using apps = await inTransaction(writing(() => ({ status: 201, body: 'done' })))
        apps.transactions.next = 'stale'
        const first = await apps.a()
        expect([first.status, String(first.body), replayed(first)]).toEqual([201, 'done', true])
        expect([apps.runs(), apps.transactions.writes]).toEqual([1, []])
      })

      const big = 'x'.repeat(5_000)
      const ways: ReadonlyArray<[string, () => string | Readable]> = [
        ['at once', () => big],
        ['as a stream', () => Readable.from([big.slice(0, 2_500), big.slice(2_500)])],
      ]

      it.each(ways)('rolls back and becomes a 500 if it is too large, %s', async (_, bodyOf) => {
        const handler = writing(({ run }) => ({
          status: 201,
          body: run === 1 ? bodyOf() : 'small',
        }))
        await using apps = await inTransaction(handler, { maxBodyBytes: 4_999 })
        const first = await apps.a()
        expect([first.status, code(first)]).toEqual([500, 'idempotency-response-too-large'])
        expect(apps.transactions.writes).toEqual([])
        expect(String((await apps.b()).body)).toBe('small')
        expect(apps.transactions.writes).toEqual(['run 2'])
      })

      it.each(ways)(
        'goes out after the commit if it is too large, with withoutBody(), %s',
        async (_, bodyOf) => {
          const handler = writing(({ attempt }) => {
            attempt?.withoutBody()
            return { status: 201, body: bodyOf() }
          })
          await using apps = await inTransaction(handler, { maxBodyBytes: 4_999 })
          const first = await apps.a()
          expect([first.status, first.cut, String(first.body)]).toEqual([201, false, big])
          expect(apps.transactions.writes).toEqual(['run 1'])
          expect(code(await apps.b())).toBe('idempotency-response-not-retained')
        },
      )

      it('commits what the handler has done, although the client has left', async () => {
        const { handler, atWork, letGo } = gated()
        await using apps = await inTransaction(writing(handler))
        const client = new AbortController()
        const lost = apps.a('/orders', { signal: client.signal })
        const { res } = await atWork
        const left = once(res, 'close')
        client.abort()
        await Promise.all([lost, left])
        letGo()
        await apps.idle()
        const retry = await apps.b()
        expect([retry.status, String(retry.body), replayed(retry)]).toEqual([201, 'done', true])
        expect([apps.runs(), apps.transactions.writes]).toEqual([1, ['run 1']])
      })
    })

    describe('a client', () => {
      it('gets the response on a retry if it left before the response ended', async () => {
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

      it('gets 409 on a retry if it left during a stream, and the handler does not run again', async () => {
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

      it('gets a full replay after it left during an earlier replay', async () => {
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

      it('has no effect on other requests if it leaves while it waits for the first one', async () => {
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
        'gets two responses to two duplicates in one TCP packet (%s), and one handler runs',
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

      it('gets 100 Continue and a response for each request with Expect', async () => {
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
        'may send a key in a %s request, where it has no effect',
        async (method) => {
          await using apps = await start()
          for (const _ of [1, 2]) {
            const got = await apps.a('/orders', { method, body: '' })
            expect([got.status, replayed(got)]).toEqual([200, false])
          }
          expect([apps.runs(), apps.outcomes]).toEqual([2, []])
        },
      )

      it.each<[string, string[], code?: string]>([
        ['1 000 fields', Array.from({ length: 1_000 }, (_, i) => `X-${i}: 1`)],
        ['two lines of Host', ['Host: evil']],
        ['two types', ['Content-Type: a/a', 'Content-Type: b/b']],
        ['two keys', ['Idempotency-Key: "other"'], 'idempotency-key-duplicate'],
      ])('gets 400 for a request with %s, and its key stays free', async (_, lines, why) => {
        await using apps = await start(({ run }) => ({ body: `run ${run}` }))
        const send = async (before: string[], framing: string, body: string) => {
          const socket = connect(apps.port, '127.0.0.1').setEncoding('latin1')
          const closed = once(socket, 'close')
          const chunks: string[] = []
          socket.on('data', (data: string) => void chunks.push(data))
          const last = ['Connection: close', ...before, framing, '', body]
          socket.write(HEAD + last.join('\r\n'))
          await closed
          return chunks.join('')
        }
        for (const [framing, body] of [
          ['Content-Length: 2', '{}'],
          ['Transfer-Encoding: chunked', '2\r\n{}\r\n0\r\n\r\n'],
        ] as const) {
          const refused = await send(lines, framing, body)
          expect(refused).toMatch(/^HTTP\/1.1 400 /)
          expect(refused).toContain(`"code":"${why ?? 'idempotency-request-ambiguous'}"`)
          expect(await send([], framing, body)).toMatch(/^HTTP\/1.1 200 .*run 1$/s)
        }
        expect(apps.runs()).toBe(1)
      })

      it('gets 413 if its request is too large to compare, and the handler does not run', async () => {
        await using apps = await start(undefined, { rules: { maxBodyBytes: 10 } })
        const got = await apps.a()
        expect([got.status, code(got)]).toEqual([413, 'idempotency-request-too-large'])
        expect(apps.runs()).toBe(0)
      })

      it('keeps its connection after a request that is too large', async () => {
        await using apps = await start(undefined, { rules: { maxBodyBytes: 10 } })
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
        ['returns a rejected promise', () => Promise.reject(new Error('scope'))],
      ])('gets status 500 if the scope function %s', async (_, scope) => {
        await using apps = await start(undefined, { rules: { scope } })
        expect((await apps.a()).status).toBe(500)
        expect(apps.runs()).toBe(0)
      })

      it('gets no replay if a middleware in front of the route refuses its request', async () => {
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
      it('replays to the same user after a new login, and not to another user', async () => {
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

      it('gets 422 if the query or the mount path differs', async () => {
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

      it('gets 422 if the method differs', async () => {
        await using apps = await start()
        await apps.a()
        expect((await apps.b('/orders', { method: 'PATCH' })).status).toBe(422)
      })
    })

    it('runs the handler in the async context of its request', async () => {
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
