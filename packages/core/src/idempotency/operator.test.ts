// The operator's view of a key, and how an operator settles it.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { IdempotencyBench } from '../testing/idempotency-bench.ts'
import { refuse } from '../testing/store-doubles.ts'

let bench: IdempotencyBench
let ask: ReturnType<IdempotencyBench['route']>

beforeEach(() => {
  bench = new IdempotencyBench()
  ask = bench.route()
})
afterEach(() => bench.end(700_000))

const ref = { scope: 'user-1', key: 'k-1' }
const operator = () => bench.stampede.idempotency
const inspect = (of: Parameters<ReturnType<typeof operator>['inspect']>[0] = ref) =>
  operator().inspect(of)

type State = 'running' | 'lapsed' | 'completed' | 'released' | 'uncertain'

/** Brings a record into a state, through the result of its handler. */
async function make(state: State): Promise<void> {
  const { attempt, answer, end } = await begin()
  if (state === 'completed') await answer({ status: 201, body: 'made' })
  if (state === 'released') await answer({ status: 500 })
  if (state === 'lapsed') await end({ type: 'unanswered' })
  if (state === 'lapsed') await bench.clock.advance(30_000)
  if (state !== 'uncertain') return
  attempt.uncertain()
  await answer()
}

async function begin() {
  const request = await ask()
  const { attempt } = request
  return { attempt, answer: request.answer.bind(request), end: request.end.bind(request) }
}

describe('idempotency.inspect()', () => {
  it('returns undefined for a key that was never used', async () => {
    expect(await inspect()).toBeUndefined()
    expect(await inspect('job')).toBeUndefined()
  })

  it('finds a job by its scope', async () => {
    const { stampede } = bench
    await stampede.idempotent('invoice', () => 7, { scope: 'ada' })
    expect(await inspect({ job: 'invoice', scope: 'ada' })).toMatchObject({ value: 7 })
    expect(await inspect('invoice')).toBeUndefined()
    expect(await inspect({ key: 'invoice', scope: 'ada' })).toBeUndefined()
  })

  it.each<[State, object]>([
    ['running', { leaseForMs: 30_000, keepForMs: 86_400_000 }],
    ['lapsed', { leaseForMs: 0, ageMs: 30_000 }],
    ['completed', { leaseForMs: 0, keepForMs: 86_400_000 }],
    ['released', { leaseForMs: 0, keepForMs: 86_400_000 }],
    ['uncertain', { leaseForMs: 0, keepForMs: 604_800_000 }],
  ])('reports the state %s', async (state, known) => {
    await make(state)
    const record = await inspect()
    expect(record).toMatchObject({ state, attempt: 1, steps: [], ...known })
    expect(record?.fence).toBeGreaterThan(0n)
    expect(record).not.toHaveProperty('frame')
    expect(record?.response?.status).toBe(state === 'completed' ? 201 : undefined)
  })

  it('reports the response and the completed steps, for a scope that is a number', async () => {
    const request = await ask({ user: 7 })
    await request.attempt.step('charge', () => 1)
    await request.answer({ status: 201, headers: { location: '/orders/7' }, body: 'made' })
    expect(await inspect({ scope: 7, key: 'k-1' })).toMatchObject({
      steps: ['charge'],
      response: { status: 201, headers: [['location', '/orders/7']], body: Buffer.from('made') },
    })
  })

  it('reports that a response was not stored, and its location', async () => {
    const request = await ask()
    request.attempt.withoutBody()
    await request.answer({ status: 201, headers: { location: '/orders/7' } })
    const headers = [['location', '/orders/7']]
    expect((await inspect())?.response).toEqual({ status: 201, headers, body: undefined })
  })

  it('reports the result of a job', async () => {
    await bench.stampede.idempotent('job', () => ({ id: 7 }))
    expect(await inspect('job')).toMatchObject({ state: 'completed', value: { id: 7 } })
  })

  it('reports the known parts of a record that this process cannot parse', async () => {
    bench = new IdempotencyBench({ idempotency: { encryptionKeys: ['a'.repeat(32)] } })
    ask = bench.route()
    await make('completed')
    bench.rt.seal.open = () => undefined
    expect(await inspect()).toMatchObject({ state: 'completed', attempt: 1 })
    expect(await inspect()).not.toHaveProperty('response')
  })
})

describe('idempotency.list()', () => {
  it('lists the records of requests and jobs by the name that inspect and events have', async () => {
    await make('uncertain')
    await bench.stampede.idempotent('job', () => 7)
    const { cursor, records, store } = await operator().list()
    expect([cursor, store]).toEqual(['', 'faulty'])
    const names = [await inspect(), await inspect('job')].map((record) => record?.internalKey)
    expect(records.map(({ key }) => key).sort()).toEqual(names.sort())
    expect(records.map(({ state }) => state).sort()).toEqual(['completed', 'uncertain'])
    for (const record of records) expect(record).not.toHaveProperty('frame')
  })
})

describe.each(['release', 'resolve'] as const)('idempotency.%s()', (word) => {
  const say = (options?: { force?: boolean }) =>
    word === 'release'
      ? operator().release(ref, options)
      : operator().resolve(ref, { status: 201, body: { id: 42 } }, options)

  async function expectDone(): Promise<void> {
    const next = await ask()
    if (word === 'resolve') return expect(next.got?.body).toBe('{"id":42}')
    expect(next.isRunning).toBe(true)
    await next.answer({ status: 500 })
  }

  it('has nothing to settle for a key that was never used', async () => {
    expect(await say()).toBe('absent')
    expect(await say({ force: true })).toBe('absent')
  })

  it.each<State>(['lapsed', 'released', 'uncertain'])('settles a key that is %s', async (state) => {
    await make(state)
    expect(await say()).toBe('settled')
    await expectDone()
  })

  it.each<State>(['running', 'completed'])('needs force for a key that is %s', async (state) => {
    await make(state)
    expect(await say()).toBe('refused')
    expect((await inspect())?.state).toBe(state)
    expect(await say({ force: true })).toBe('settled')
    await expectDone()
  })

  it('settles only the state and the attempt of the record that it gets', async () => {
    await make('uncertain')
    const seen = await inspect()
    if (seen === undefined) throw new Error('no record')
    const settle = (force: typeof seen) =>
      word === 'release'
        ? operator().release(ref, { force })
        : operator().resolve(ref, { status: 201, body: { id: 42 } }, { force })
    expect(await settle({ ...seen, fence: seen.fence + 1n })).toBe('refused')
    expect(await settle({ ...seen, state: 'released' })).toBe('refused')
    expect((await inspect())?.state).toBe('uncertain')
    expect(await settle(seen)).toBe('settled')
    expect(await settle(seen)).toBe('refused')
    await expectDone()
  })

  it('emits idempotency.settled with the key, and nothing if it is refused', async () => {
    const seen: unknown[] = []
    bench.stampede.on('idempotency.settled', (event) => seen.push(event))
    await make('completed')
    await say()
    expect(seen).toEqual([])
    const { internalKey } = (await inspect()) ?? {}
    await say({ force: true })
    const as = word === 'release' ? 'released' : 'completed'
    expect(seen).toEqual([{ type: 'idempotency.settled', key: 'k-1', internalKey, as }])
    if (word === 'release') await (await ask()).answer({ status: 500 })
  })

  it('ends a running attempt, whose response reaches its client and is not stored', async () => {
    const first = await ask()
    await say({ force: true })
    expect(first.attempt.signal.aborted).toBe(true)
    bench.events.take()
    await first.answer({ body: 'late' })
    expect(first.got?.body).toBe('late')
    expect(bench.events.take()).toEqual(['finished completed, stale'])
    await expectDone()
  })

  it('rejects if the store is unavailable, and the outcome is unknown', async () => {
    await make('uncertain')
    bench.store.next('settle', refuse)
    await expect(say()).rejects.toThrow('the store is away')
    expect((await inspect())?.state).toBe('uncertain')
  })

  it('replaces a response that this process could not store', async () => {
    const first = await ask()
    bench.store.next('finish', refuse)
    await first.answer({ body: 'made' })
    expect(await say({ force: true })).toBe('settled')
    await expectDone()
  })
})

describe('idempotency.resolve()', () => {
  it('gives duplicates the response, with the content type of its body', async () => {
    const bodies: Array<[unknown, string | undefined, string]> = [
      ['text', 'text/plain; charset=utf-8', 'text'],
      [Buffer.from('bytes'), 'application/octet-stream', 'bytes'],
      [{ id: 42 }, 'application/json; charset=utf-8', '{"id":42}'],
      [null, 'application/json; charset=utf-8', 'null'],
      [undefined, undefined, ''],
    ]
    await make('uncertain')
    for (const [body, type, sent] of bodies) {
      await operator().resolve(ref, { body }, { force: true })
      const again = await ask()
      expect(again.got).toMatchObject({ status: 200, body: sent })
      expect(again.field('content-type')).toBe(type)
    }
    const headers = { 'Content-Type': 'application/xml', 'Set-Cookie': 'a=1' }
    await operator().resolve(ref, { headers, body: '<a/>' }, { force: true })
    expect((await ask()).got?.headers).toEqual([
      ['content-type', 'application/xml'],
      ['idempotency-replayed', 'true'],
    ])
  })

  it('gives a job its value', async () => {
    const job = bench.stampede.idempotent('job', ({ uncertain }) => uncertain())
    await job
    expect(await operator().resolve('job', { value: { id: 7 } })).toBe('settled')
    expect(await bench.stampede.idempotent('job', () => 'again')).toEqual({ id: 7 })
  })

  it.each<[string, unknown, RegExp]>([
    ['a missing response', undefined, /idempotency\.resolve: received undefined; use a response/],
    ['a string', 'done', /idempotency\.resolve: received "done"; pass an object/],
    [
      'a status that has no response',
      { status: 100 },
      /resolve\.status: received 100; use a status/,
    ],
    ['an invalid status', { status: '201' }, /resolve\.status: received "201"/],
    ['a misspelt member', { boddy: 1 }, /resolve\.boddy.*did you mean body\?/],
    ['the value of a job', { value: 1 }, /resolve\.value/],
    [
      'a header field that HTTP does not allow',
      { headers: { 'x-note': 'paid \u2713' } },
      /resolve\.headers: received "x-note"; use names and values that HTTP allows/,
    ],
    ['a value without a JSON form', { body: 1n }, /resolve\.body: received 1n; use text, bytes/],
  ])('rejects %s', async (_, answer, message) => {
    await make('uncertain')
    await expect(operator().resolve(ref, answer as object)).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_OPTION',
      message: expect.stringMatching(message),
    })
    expect((await inspect())?.state).toBe('uncertain')
  })

  it('rejects a response for a job, and a value without a JSON form', async () => {
    await expect(operator().resolve('job', { status: 200 })).rejects.toThrow('resolve.status')
    await expect(operator().resolve('job', { value: 1n })).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_VALUE',
    })
  })
})

describe('an operator call with an unusable key', () => {
  it.each<[unknown, RegExp]>([
    [undefined, /key/],
    ['', /key: received ""/],
    [7, /key: received 7/],
    [{ key: 'k-1' }, /or \{ scope, key \}/],
    [{ key: '', scope: 'a' }, /or \{ scope, key \}/],
    [{ key: 'k-1', scope: '' }, /or \{ scope, key \}/],
    [{ key: 'k-1', scope: Number.NaN }, /or \{ scope, key \}/],
    [{ key: 'k-1', scope: null }, /or \{ scope, key \}/],
    [{ key: 'k-1', scopes: 'a' }, /did you mean scope\?/],
  ])('is rejected for %j', async (key, message) => {
    const refused = { code: 'ERR_STAMPEDE_OPTION', message: expect.stringMatching(message) }
    await expect(operator().inspect(key as string)).rejects.toMatchObject(refused)
    await expect(operator().release(key as string)).rejects.toMatchObject(refused)
    expect(bench.store.take()).toEqual([])
  })

  it('is rejected for unknown options, too', async () => {
    const release = (options: unknown) => operator().release(ref, options as object)
    await expect(release({ forced: true })).rejects.toThrow('did you mean force?')
    await expect(release({ force: 1 })).rejects.toThrow('idempotency.force: received 1; use true')
    await expect(release(true)).rejects.toThrow('pass an object of options')
  })
})
