// Problem responses, byte by byte. They repeat nothing that the client sent.

import { beforeEach, describe, expect, it } from 'vitest'
import { type BenchOptions, IdempotencyBench } from '../testing/idempotency-bench.ts'
import { type Asked, type ScriptedRequest, TransactionDouble } from '../testing/index.ts'
import { refuse } from '../testing/store-doubles.ts'

let bench: IdempotencyBench

beforeEach(() => {
  bench = new IdempotencyBench()
})

const docsUrl = 'https://shop.test/docs/keys'
const SECRET = 'secret-of-a-client'

/** How to cause each code. `key` is the one that must not be repeated. */
const ways: Record<string, (options: BenchOptions) => Promise<ScriptedRequest>> = {
  'idempotency-key-missing': (options) => bench.route(options)({ key: [] }),
  'idempotency-key-invalid': (options) => bench.route(options)({ key: `"${SECRET}` }),
  'idempotency-key-duplicate': (options) => bench.route(options)({ key: [SECRET, SECRET] }),
  'idempotency-key-reused': async (options) => {
    await bench.route(options)({ key: SECRET, body: 'a' })
    return bench.route(options)({ key: SECRET, body: 'b' })
  },
  'idempotency-in-progress': async (options) => {
    await bench.route(options)({ key: SECRET })
    return bench.route(options)({ key: SECRET })
  },
  'idempotency-outcome-uncertain': async (options) => {
    const first = await bench.route(options)({ key: SECRET })
    first.attempt.uncertain()
    await first.answer()
    return bench.route(options)({ key: SECRET })
  },
  'idempotency-response-not-retained': async (options) => {
    const first = await bench.route(options)({ key: SECRET })
    first.attempt.withoutBody()
    await first.answer({ status: 201, headers: { location: '/orders/7' }, body: SECRET })
    return bench.route(options)({ key: SECRET })
  },
  'idempotency-request-too-large': (options) =>
    bench.route({ ...options, maxBodyBytes: 3 })({ key: SECRET, body: 'long' }),
  'idempotency-store-unavailable': (options) => {
    bench.store.next('begin', refuse)
    return bench.route(options)({ key: SECRET })
  },
  'idempotency-response-too-large': async (options) => {
    const request = await inTransaction(options)
    await request.end({ type: 'not-retained', head: { status: 201, headers: [] } })
    return request
  },
  'idempotency-transaction-failed': (options) => notCommitted(options, 'failed'),
  'idempotency-transaction-ended': (options) => notCommitted(options, 'ended'),
  'idempotency-outcome-unknown': (options) => notCommitted(options, 'unknown'),
}

const transactions = new TransactionDouble()

function inTransaction(options: BenchOptions): Promise<ScriptedRequest> {
  transactions.addTo(bench.store)
  return bench.route({ ...options, transaction: true })({ key: SECRET })
}

async function notCommitted(
  options: BenchOptions,
  reply: 'failed' | 'ended' | 'unknown',
): Promise<ScriptedRequest> {
  const request = await inTransaction(options)
  transactions.next = reply
  await request.answer({ body: SECRET })
  return request
}

function refused(code: string, options: BenchOptions): Promise<ScriptedRequest> {
  const way = ways[code]
  if (way === undefined) throw new Error(`no way to be refused with ${code}`)
  return way(options)
}

const EXPECTED: ReadonlyArray<[code: string, status: number, title: string, retryable: boolean]> = [
  ['idempotency-key-missing', 400, 'Idempotency-Key is missing', false],
  ['idempotency-key-invalid', 400, 'Idempotency-Key is malformed', false],
  ['idempotency-key-duplicate', 400, 'Idempotency-Key is repeated', false],
  ['idempotency-key-reused', 422, 'Idempotency-Key is already used', false],
  ['idempotency-in-progress', 409, 'A request is in progress for this Idempotency-Key', true],
  [
    'idempotency-outcome-uncertain',
    409,
    'The outcome for this Idempotency-Key is uncertain',
    false,
  ],
  ['idempotency-response-not-retained', 409, 'The request was carried out before', false],
  ['idempotency-request-too-large', 413, 'The request is too large', false],
  ['idempotency-store-unavailable', 503, 'Idempotency keys are unavailable', true],
  ['idempotency-response-too-large', 500, 'The response is too large', false],
  ['idempotency-transaction-failed', 500, 'The transaction failed', false],
  ['idempotency-transaction-ended', 500, 'The transaction was ended by its handler', false],
  [
    'idempotency-outcome-unknown',
    503,
    'The transaction did not commit, or its outcome is unknown',
    true,
  ],
]

describe.each(EXPECTED)('%s', (code, status, title, retryable) => {
  const original =
    code === 'idempotency-response-not-retained'
      ? { originalStatus: 201, originalLocation: '/orders/7' }
      : {}

  it('is a problem document with the expected members', async () => {
    const { got, problem } = await refused(code, {})
    expect(got).toMatchObject({ by: 'core', status })
    expect(problem).toEqual({
      type: `urn:stampede:problem:${code}`,
      title,
      status,
      detail: expect.stringMatching(/^[A-Z].*\.$/),
      code,
      retryable,
      ...original,
    })
    expect(got?.headers).toEqual([
      ['content-type', 'application/problem+json'],
      ['cache-control', 'no-store'],
      ...(retryable ? [['retry-after', '1']] : []),
      ...('originalLocation' in original ? [['location', '/orders/7']] : []),
    ])
  })

  it('links the documentation, and repeats nothing from the request', async () => {
    const { got, problem } = await refused(code, { docsUrl })
    expect(problem.type).toBe(`${docsUrl}#${code}`)
    expect(got?.headers).toContainEqual(['link', `<${docsUrl}>; rel="describedby"`])
    expect(JSON.stringify(got)).not.toContain(SECRET)
  })
})

it('the detail of an invalid key names the defect', async () => {
  const { problem } = await bench.route({ strict: true })({ key: 'bare' })
  expect(problem.detail).toBe('The key must be a quoted string (RFC 9651, section 3.3.3).')
})

describe('the Idempotency-Key field', () => {
  it('is neither required nor parsed for GET, HEAD, PUT, DELETE and OPTIONS', async () => {
    const ask = bench.route()
    for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS']) {
      const request = await ask({ method, key: '"bad' })
      expect(request.got).toMatchObject({ by: 'bypass', headers: [] })
      expect(request.given).toBeUndefined()
    }
    expect(bench.events.take()).toEqual([])
  })

  it('is required for the methods that the route names, in any letter case', async () => {
    const ask = bench.route({ methods: ['put'] })
    expect((await ask({ method: 'PUT', key: [] })).got?.status).toBe(400)
    expect((await ask({ method: 'POST', key: [] })).got?.by).toBe('bypass')
  })

  it('may be optional, and a request without the field runs unchanged', async () => {
    const request = await bench.route({ required: false })({ key: [] })
    expect(request.got).toMatchObject({ by: 'bypass', headers: [] })
    expect(request.given).toBeUndefined()
    expect((await bench.route({ required: false })({ key: '"bad' })).got?.status).toBe(400)
  })

  it('may be optional by a function of the request, whose errors are thrown', async () => {
    const required = ({ user }: ScriptedRequest) => user === 'new'
    const ask = bench.route({ required })
    expect((await ask({ key: [], user: 'new' })).got?.status).toBe(400)
    expect((await ask({ key: [], user: 'old' })).got?.by).toBe('bypass')
    const error = new Error('no user')
    const failing = await bench.route({ required: () => fail(error) })({ key: [] })
    expect(failing).toMatchObject({ error, got: undefined })
  })

  it('may also have an older name, and two different keys are refused', async () => {
    const ask = bench.route({ headers: ['Idempotency-Key', 'X-Request-Key'] })
    const old = { 'x-request-key': 'k-1' }
    const first = await ask({ key: '"k-1"' })
    expect(first.isRunning).toBe(true)
    expect((await ask({ key: [], headers: old })).got?.status).toBe(409)
    expect((await ask({ key: 'k-1', headers: old })).got?.status).toBe(409)
    const two = await ask({ key: 'k-2', headers: old })
    expect(two.problem.code).toBe('idempotency-key-duplicate')
    const bad = await ask({ key: 'k-1', headers: { 'x-request-key': '"' } })
    expect(bad.problem.code).toBe('idempotency-key-invalid')
    await first.answer()
  })
})

describe('the scope of a key', () => {
  it.each<[string, unknown]>([
    ['undefined', undefined],
    ['null', null],
    ['an empty text', ''],
    ['NaN', Number.NaN],
    ['infinite', Number.POSITIVE_INFINITY],
    ['an object', { id: 7 }],
    ['true', true],
  ])('causes an error without a store command if it is %s', async (_, scope) => {
    const request = await bench.route({ scope: () => scope as string })()
    expect(request.error).toMatchObject({
      code: 'ERR_STAMPEDE_OPTION',
      message: expect.stringMatching(
        /^idempotency\.scope: the function returned .+; return a non-empty string or a number/,
      ),
    })
    expect(request).toMatchObject({ got: undefined, isRunning: false })
    expect(bench.store.take()).toEqual([])
  })

  it('passes an error of the scope function on to the framework', async () => {
    const error = new Error('not signed in')
    expect((await bench.route({ scope: () => fail(error) })()).error).toBe(error)
    expect((await bench.route({ scope: () => Promise.reject(error) })()).error).toBe(error)
  })

  it('is computed only if the request has a key', async () => {
    const ask = bench.route({ scope: () => fail(new Error('not asked')) })
    expect((await ask({ key: [] })).got?.status).toBe(400)
    expect((await ask({ method: 'GET' })).got?.by).toBe('bypass')
  })
})

describe('the request body', () => {
  const unseen: Asked = { seen: { type: 'unseen' } }

  it('causes an error if another middleware has read it and left nothing', async () => {
    const request = await bench.route()(unseen)
    expect(request.error).toMatchObject({ code: 'ERR_STAMPEDE_BODY_UNSEEN' })
    expect(bench.store.take()).toEqual([])
  })

  it('is not read if fingerprintOfValue is set', async () => {
    const ask = bench.route({ fingerprint: ({ user }) => ({ total: user }) })
    const first = await ask(unseen)
    expect(first.isRunning).toBe(true)
    await first.answer()
    expect((await ask({ body: 'other' })).field('idempotency-replayed')).toBe('true')
  })

  it('causes an error if fingerprintOfValue returns undefined', async () => {
    const request = await bench.route({ fingerprint: () => undefined })()
    expect(request.error).toMatchObject({
      message: 'idempotency.fingerprint: the function must return a value that JSON can represent',
    })
    const error = new Error('no total')
    expect((await bench.route({ fingerprint: () => fail(error) })()).error).toBe(error)
  })
})

function fail(error: Error): never {
  throw error
}
