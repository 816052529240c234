// Hono alone in the course of an idempotent request: mounting, bodies that were read before,
// errors. The rest is in the contract (test/contracts/idempotency-adapters.versions.test.ts).

import { type Context, Hono, type MiddlewareHandler } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { compress } from 'hono/compress'
import { describe, expect, it } from 'vitest'
import { deferred } from '../../node-http/src/testing/deferred.ts'
import { idempotency } from './index.ts'
import { type Served, serve } from './testing/serve.ts'

const scope = (): string => 'ada'

async function post(server: Served, body: unknown, headers: Record<string, string> = {}) {
  const response = await server.ask('/orders', {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers: { 'content-type': 'application/json', 'idempotency-key': 'k', ...headers },
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text }
}

/** A server whose orders count their runs and return their body. */
async function orders(front: readonly MiddlewareHandler[] = []): Promise<Served> {
  const app = new Hono()
  let runs = 0
  for (const each of front) app.use(each)
  app.post('/orders', idempotency({ scope }), async (c) => {
    const attempt = c.get('idempotency')?.number
    return c.json({ run: ++runs, body: await c.req.json(), attempt }, 201)
  })
  return serve(app)
}

describe('idempotency on Hono', () => {
  const after =
    (read: (c: Context) => Promise<unknown>): MiddlewareHandler =>
    async (c, next) => {
      await read(c)
      await next()
    }
  const reading: ReadonlyArray<readonly [string, readonly MiddlewareHandler[]]> = [
    ['no middleware', []],
    ['c.req.json()', [after((c) => c.req.json())]],
    ['c.req.text()', [after((c) => c.req.text())]],
    ['c.req.arrayBuffer()', [after((c) => c.req.arrayBuffer())]],
    ['a clone of c.req.raw', [after((c) => c.req.raw.clone().text())]],
    ['bodyLimit()', [bodyLimit({ maxSize: 1_000 })]],
    ['compress()', [compress({ threshold: 0 })]],
  ]
  it.each(reading)('compares the body and gives it to the handler after %s', async (_, front) => {
    await using server = await orders(front)
    const first = await post(server, { amount: 1 })
    expect(JSON.parse(first.text)).toEqual({ run: 1, body: { amount: 1 }, attempt: 1 })
    const retry = await post(server, { amount: 1 })
    expect([retry.headers.get('idempotency-replayed'), retry.text]).toEqual(['true', first.text])
    expect((await post(server, { amount: 2 })).status).toBe(422)
  })

  it('compares a form that a middleware has parsed', async () => {
    let runs = 0
    const app = new Hono().use(after((c) => c.req.parseBody()))
    app.post('/orders', idempotency({ scope }), async (c) =>
      c.json({ run: ++runs, ...(await c.req.parseBody()) }),
    )
    await using server = await serve(app)
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    for (let i = 0; i < 2; i++)
      expect((await post(server, 'amount=1', headers)).text).toBe('{"run":1,"amount":"1"}')
    expect((await post(server, 'amount=2', headers)).status).toBe(422)
  })

  it('refuses a body that a middleware has read from c.req.raw', async () => {
    await using server = await orders([
      async (c, next) => {
        await c.req.raw.text()
        await next()
      },
    ])
    const refused = await post(server, { amount: 1 })
    expect([refused.status, refused.text]).toEqual([500, expect.any(String)])
  })

  it('gives the handler c.req.raw with its body', async () => {
    const app = new Hono()
    app.post('/orders', idempotency({ scope }), async (c) => c.text(await c.req.raw.text()))
    await using server = await serve(app)
    expect((await post(server, 'one')).text).toBe('one')
    expect((await post(server, 'two')).status).toBe(422)
  })

  it('runs in a sub-app with its own prefix, after its authentication', async () => {
    let runs = 0
    const sub = new Hono<{ Variables: { user: string } }>()
    sub.use(async (c, next) => {
      c.set('user', c.req.header('x-user') ?? '')
      await next()
    })
    sub.post('/', idempotency({ scope: (c: Context) => c.get('user') }), (c) => c.text(`${++runs}`))
    await using server = await serve(new Hono().route('/orders', sub))
    const runOf = async (user: string) => (await post(server, {}, { 'x-user': user })).text
    expect([await runOf('ada'), await runOf('bob'), await runOf('ada')]).toEqual(['1', '2', '1'])
  })

  it('sends fields of middlewares in front with a replay', async () => {
    let requests = 0
    await using server = await orders([
      async (c, next) => {
        c.header('x-request-id', `r${++requests}`)
        await next()
        c.header('x-after', `r${requests}`)
      },
    ])
    const own = ({ headers }: { headers: Headers }) => [
      headers.get('x-request-id'),
      headers.get('x-after'),
    ]
    expect(own(await post(server, {}))).toEqual(['r1', 'r1'])
    expect(own(await post(server, {}))).toEqual(['r2', 'r2'])
  })

  it('replays the response of app.onError only if the status is no failure', async () => {
    let runs = 0
    const app = new Hono().post('/orders', idempotency({ scope }), (c) => {
      runs += 1
      throw Object.assign(new Error('broken'), { status: Number(c.req.header('x-status')) })
    })
    app.onError((error, c) => c.text(`run ${runs}`, Reflect.get(error, 'status')))
    await using server = await serve(app)
    expect((await post(server, {}, { 'x-status': '500' })).text).toBe('run 1')
    expect((await post(server, {}, { 'x-status': '422' })).text).toBe('run 2')
    expect((await post(server, {}, { 'x-status': '422' })).text).toBe('run 2')
  })

  it('passes a missing response of the handler to app.onError, and replays none', async () => {
    let runs = 0
    const forgotten = (async (c: Context) => void c.text(`run ${++runs}`)) as never
    const app = new Hono().post('/orders', idempotency({ scope }), forgotten)
    app.onError((error, c) => c.text(error.message, 500))
    await using server = await serve(app)
    for (let i = 0; i < 2; i++)
      expect((await post(server, {})).text).toContain('returned no Response')
    expect(runs).toBe(2)
  })

  it('frees the key at once if app.onError throws', async () => {
    let runs = 0
    const app = new Hono().post('/orders', idempotency({ scope }), (c) => {
      if (++runs === 1) throw new Error('broken')
      return c.text(`run ${runs}`)
    })
    app.onError((error) => {
      throw error
    })
    await using server = await serve(app)
    expect((await post(server, {})).status).toBe(500)
    expect((await post(server, {})).text).toBe('run 2')
  })

  it.each(['returns', 'throws'])(
    'frees the key if the handler %s after a timeout in front has responded',
    async (how) => {
      let runs = 0
      const { promise: timeout, resolve: timeOut } = deferred()
      const { promise: late, resolve: end } = deferred()
      const app = new Hono().use(async (c, next) => {
        if (runs > 0) return next()
        const passed = next()
        return Promise.race([passed, timeout.then(() => c.text('too late', 504))])
      })
      app.post('/orders', idempotency({ scope }), async (c) => {
        if (++runs > 1) return c.text(`run ${runs}`)
        await late
        if (how === 'throws') throw new Error('too late')
        return c.text('run 1')
      })
      app.onError((_error, c) => c.text('failed', 500))
      await using server = await serve(app)
      const first = post(server, {})
      await expect.poll(() => runs).toBe(1)
      expect((await post(server, {})).status).toBe(409)
      timeOut()
      expect((await first).status).toBe(504)
      end()
      await expect.poll(async () => (await post(server, {})).text).toBe('run 2')
      expect((await post(server, {})).headers.get('idempotency-replayed')).toBe('true')
    },
  )

  it('passes errors of scope to app.onError, and refuses a missing key', async () => {
    const broken = (): string => {
      throw new Error('no user')
    }
    const app = new Hono().post('/orders', idempotency({ scope: broken }))
    app.post('/strict', idempotency({ scope, required: true }))
    app.onError((error, c) => c.text(error.message, 500))
    await using server = await serve(app)
    expect((await post(server, {})).text).toBe('no user')
    const missing = await server.ask('/strict', { method: 'POST', body: '{}' })
    expect([missing.status, missing.headers.get('content-type')]).toEqual([
      400,
      'application/problem+json',
    ])
  })
})
