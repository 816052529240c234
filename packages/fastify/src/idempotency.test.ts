// Fastify alone in the course of an idempotent request: mounting, parsed bodies, validation. The
// rest is in the contract (test/contracts/idempotency-adapters.versions.test.ts).

import fastify, { type FastifyInstance, type InjectOptions } from 'fastify'
import { describe, expect, it } from 'vitest'
import { idempotency } from './index.ts'

const scope = (): string => 'ada'
const post = (app: FastifyInstance, payload: object | string, more: InjectOptions = {}) =>
  app.inject({
    method: 'POST',
    url: '/orders',
    payload,
    ...more,
    headers: { 'idempotency-key': 'k', ...more.headers },
  })

/** An app whose orders count their runs. */
function orders(mount: (app: FastifyInstance) => void): FastifyInstance {
  const app = fastify()
  let runs = 0
  mount(app)
  app.post('/orders', async ({ body, idempotency: attempt }, reply) => {
    reply.code(201)
    return { run: ++runs, body, attempt: attempt?.number }
  })
  return app
}

describe('idempotency on Fastify', () => {
  it('compares the body that Fastify parsed, and gives the handler the same body', async () => {
    const app = orders((instance) => instance.register(idempotency({ scope })))
    const first = await post(app, { amount: 1 })
    expect(first.json()).toEqual({ run: 1, body: { amount: 1 }, attempt: 1 })
    const retry = await post(app, { amount: 1 })
    expect([retry.headers['idempotency-replayed'], retry.body]).toEqual(['true', first.body])
    expect((await post(app, { amount: 2 })).statusCode).toBe(422)
    expect((await post(app, {}, { headers: { 'idempotency-key': 'empty' } })).json().body).toEqual(
      {},
    )
  })

  it('reads a body that no parser of Fastify has read, and leaves it for the handler', async () => {
    const app = fastify().register(idempotency({ scope }))
    app.addContentTypeParser('text/x-stream', (_request, _payload, done) => done(null))
    app.post('/orders', async ({ raw }) => {
      let text = ''
      for await (const chunk of raw) text += chunk
      return text
    })
    const headers = { 'content-type': 'text/x-stream' }
    expect((await post(app, 'one', { headers })).body).toBe('one')
    expect((await post(app, 'one', { headers })).headers['idempotency-replayed']).toBe('true')
    expect((await post(app, 'two', { headers })).statusCode).toBe(422)
  })

  it('runs after the authentication of a route, as its preHandler', async () => {
    const app = fastify().decorateRequest('user', '')
    let runs = 0
    const byUser = idempotency({ scope: (request) => String(Reflect.get(request, 'user')) })
    const authenticate = async (request: object) => void Reflect.set(request, 'user', 'ada')
    app.post('/orders', { preHandler: [authenticate, byUser] }, async () => ({ run: ++runs }))
    expect((await post(app, {})).json()).toEqual({ run: 1 })
    expect((await post(app, {})).json()).toEqual({ run: 1 })
  })

  it('uses no key for a request that fails validation', async () => {
    const app = fastify().register(idempotency({ scope }))
    const body = {
      type: 'object',
      required: ['amount'],
      properties: { amount: { type: 'number' } },
    }
    app.post('/orders', { schema: { body } }, async () => 'made')
    expect((await post(app, {})).statusCode).toBe(400)
    expect((await post(app, { amount: 1 })).body).toBe('made')
  })

  it('sends fields of earlier hooks with a replay', async () => {
    let requests = 0
    const app = orders((instance) => {
      instance.addHook('onRequest', async (_request, reply) => {
        reply.header('x-request-id', `r${++requests}`)
      })
      instance.register(idempotency({ scope }))
    })
    expect((await post(app, {})).headers['x-request-id']).toBe('r1')
    expect((await post(app, {})).headers['x-request-id']).toBe('r2')
  })

  it('passes errors of scope to the error handler, and refuses a missing key', async () => {
    const broken = (): string => {
      throw new Error('no user')
    }
    const app = orders((instance) => instance.register(idempotency({ scope: broken })))
    expect((await post(app, {})).json()).toMatchObject({ statusCode: 500, message: 'no user' })
    const strict = orders((instance) => instance.register(idempotency({ scope, required: true })))
    const missing = await strict.inject({ method: 'POST', url: '/orders', payload: {} })
    expect([missing.statusCode, missing.headers['content-type']]).toEqual([
      400,
      'application/problem+json',
    ])
  })
})
