// api/idempotency and api/settle, for an authorized client, on the memory store.

import { createStampede, type Stampede } from '@stampede/core'
import { idempotentFront } from '@stampede/node-http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { serve, type TestServer } from '../../node-http/src/testing/raw-client.ts'
import type { FleetView } from './fleet-view.ts'
import type { OneKeyView, RecordsView } from './idempotency-page.ts'
import { stampedeDashboard } from './index.ts'

let stampede: Stampede
let dashboard: ReturnType<typeof stampedeDashboard>
let server: TestServer
let mayPost: boolean
beforeEach(async () => {
  mayPost = true
  stampede = createStampede()
  const authorize = ({ method }: { method?: string | undefined }) => mayPost || method !== 'POST'
  dashboard = stampedeDashboard({ stampede, authorize })
  server = await serve(dashboard)
})
afterEach(async () => {
  await dashboard.close()
  await server[Symbol.asyncDispose]()
  await stampede.close()
})

const ask = (path: string, init?: RequestInit) =>
  fetch(`http://127.0.0.1:${server.port}${path}`, init)
const list = async () => (await (await ask('/api/idempotency')).json()) as RecordsView
const fieldOf = (ref: unknown) => ({
  'x-stampede-key': Buffer.from(JSON.stringify(ref)).toString('base64url'),
})
const look = async (ref: unknown) =>
  (await (await ask('/api/idempotency', { headers: fieldOf(ref) })).json()) as OneKeyView
const seenOf = async (ref: unknown) => {
  const { record } = await look(ref)
  return { state: record?.state, fence: record?.fence }
}
const OWN = { 'content-type': 'application/json', 'x-stampede-dashboard': '1' }
const settle = (body: unknown, headers: Record<string, string> = OWN) =>
  ask('/api/settle', { method: 'POST', headers, body: JSON.stringify(body) })
const errorOf = async (response: Response) => ((await response.json()) as { error: string }).error

const JOB = { job: 'invoice:7', scope: 'ada' }
const uncertain = ({ job, scope }: { job: string; scope: string } = JOB) =>
  stampede.idempotent(job, (attempt) => attempt.uncertain(), { scope })

/** A request whose response is stored. */
async function post(key: string): Promise<void> {
  const respond = idempotentFront((_req, res) => void res.writeHead(201).end('secret-body'), {
    stampede,
    scope: () => 'customer:7',
  })
  await using app = await serve(respond)
  const init = { method: 'POST', headers: { 'Idempotency-Key': key }, body: 'secret-input' }
  await (await fetch(`http://127.0.0.1:${app.port}/orders`, init)).text()
}

describe('api/idempotency', () => {
  it('says in which store it found nothing', async () => {
    expect(await list()).toEqual({ store: 'memory', cursor: '', records: [] })
    expect(await look(JOB)).toEqual({})
  })

  it('lists the records of all keys by their hashes', async () => {
    await uncertain()
    await post('k-1')
    const { records } = await list()
    expect(records.map(({ state }) => state).sort()).toEqual(['completed', 'uncertain'])
    const { record } = await look(JOB)
    expect(records.map(({ key }) => key)).toContain(record?.internalKey)
  })

  it('shows one key with its state, and the status and size of its response', async () => {
    await post('k-1')
    const { record } = await look({ key: 'k-1', scope: 'customer:7' })
    expect(record).toMatchObject({ state: 'completed', attempt: 1, steps: [], leaseForMs: 0 })
    expect(record?.response).toEqual({ status: 201, bodyBytes: 11 })
    expect(record?.keepForMs).toBeGreaterThan(86_000_000)
  })

  it('never has a body, a result, a key or a fingerprint', async () => {
    await post('secret-key')
    await stampede.idempotent('secret-job', () => 'secret-result', { input: 'secret-input' })
    const texts = [
      await (await ask('/api/idempotency')).text(),
      JSON.stringify(await look({ key: 'secret-key', scope: 'customer:7' })),
      JSON.stringify(await look({ job: 'secret-job' })),
      await (await ask('/api/fleet')).text(),
    ]
    for (const text of texts) expect(text).not.toMatch(/secret|exact|canonical|frame/)
  })

  it.each([
    ['markup', '<script>alert(1)</script>"\'><img src=x onerror=alert(1)>'],
    ['8 kB', 'x'.repeat(8_192)],
    ['control characters', 'a\u0000b\r\nc'],
    ['characters beyond ASCII', 'schlüssel 鍵 😀 \u202e'],
    ['half a character', '\ud800'],
  ])('finds and settles a key with %s', async (_, job) => {
    const ref = { job, scope: job.slice(0, 100) }
    await uncertain(ref)
    expect((await look(ref)).record?.state).toBe('uncertain')
    expect((await settle({ key: ref, seen: await seenOf(ref), answer: 'release' })).status).toBe(
      200,
    )
    expect((await look(ref)).record?.state).toBe('released')
    expect((await look({ ...ref, job: `${job}x` })).record).toBeUndefined()
  })

  it('refuses a key that it cannot read', async () => {
    const fields = ['', '%%%', Buffer.from('{').toString('base64url')]
    const refs = [7, null, [], {}, { key: 'a' }, { key: 'a', scope: '' }, { job: '', scope: 'a' }]
    for (const headers of [
      ...fields.map((field) => ({ 'x-stampede-key': field })),
      ...refs.map(fieldOf),
    ])
      expect((await ask('/api/idempotency', { headers })).status).toBe(400)
  })

  it('begins again at a cursor that it cannot read', async () => {
    await uncertain()
    for (const cursor of ['', '%00', '0%20x', '<script>'])
      expect((await ask(`/api/idempotency?cursor=${cursor}`)).status).toBe(200)
  })
})

describe('api/settle', () => {
  it('releases a key, so that the next job runs', async () => {
    await uncertain()
    expect((await settle({ key: JOB, seen: await seenOf(JOB), answer: 'release' })).status).toBe(
      200,
    )
    expect(await stampede.idempotent(JOB.job, () => 'ran', { scope: JOB.scope })).toBe('ran')
  })

  it('sets the result of a job, and the response of a request', async () => {
    await uncertain()
    const answer = { value: { charge: 'ch_1' } }
    expect((await settle({ key: JOB, seen: await seenOf(JOB), answer })).status).toBe(200)
    const repeat = stampede.idempotent(JOB.job, () => 'ran', { scope: JOB.scope })
    expect(await repeat).toEqual({ charge: 'ch_1' })
    const ref = { key: 'k-1', scope: 'customer:7' }
    await post('k-1')
    const seen = await seenOf(ref)
    expect((await settle({ key: ref, seen, answer: { status: 202, body: 'ok' } })).status).toBe(200)
    expect((await look(ref)).record?.response).toEqual({ status: 202, bodyBytes: 2 })
  })

  it('changes nothing if the key was settled meanwhile, and says its new state', async () => {
    await uncertain()
    const seen = await seenOf(JOB)
    const replies = await Promise.all([
      settle({ key: JOB, seen, answer: 'release' }),
      settle({ key: JOB, seen, answer: { value: 1 } }),
    ])
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 409])
    const { record } = await look(JOB)
    const won = replies[0].status === 200 ? 'released' : 'completed'
    expect(record?.state).toBe(won)
    const lost = replies.find(({ status }) => status === 409)
    expect(lost && (await errorOf(lost))).toBe('refused')
  })

  it('changes nothing if an attempt has begun since, and ends one that was seen', async () => {
    await stampede.idempotent('job', () => Promise.reject(new Error('no'))).catch(() => {})
    const seen = await seenOf({ job: 'job' })
    let end = (_: unknown): void => {}
    const running = stampede.idempotent(
      'job',
      () =>
        new Promise((resolve) => {
          end = resolve
        }),
    )
    await expect.poll(async () => (await seenOf({ job: 'job' })).state).toBe('running')
    const refused = await settle({ key: { job: 'job' }, seen, answer: 'release' })
    expect([refused.status, await errorOf(refused)]).toEqual([409, 'refused'])
    expect((await seenOf({ job: 'job' })).state).toBe('running')
    const now = await seenOf({ job: 'job' })
    expect((await settle({ key: { job: 'job' }, seen: now, answer: { value: 7 } })).status).toBe(
      200,
    )
    end('late')
    expect(await running).toBe('late')
    expect(await stampede.idempotent('job', () => 'again')).toBe(7)
  })

  it('says that a key has no record', async () => {
    const seen = { state: 'uncertain', fence: '1' }
    const gone = await settle({ key: JOB, seen, answer: 'release' })
    expect([gone.status, await errorOf(gone)]).toEqual([409, 'absent'])
  })

  it.each<[string, (seen: object) => object]>([
    ['without the state that was seen', () => ({ key: JOB, answer: 'release' })],
    [
      'with a fence that is no number',
      () => ({ key: JOB, seen: { state: 'uncertain', fence: 'x' }, answer: 'release' }),
    ],
    ['without a decision', (seen) => ({ key: JOB, seen })],
    ['with another decision', (seen) => ({ key: JOB, seen, answer: 'keep' })],
    ['that has seen any state', () => ({ key: JOB, seen: true, answer: 'release' })],
    ['with a response for a job', (seen) => ({ key: JOB, seen, answer: { status: 200 } })],
    ['without a key', (seen) => ({ seen, answer: 'release' })],
  ])('refuses a request %s', async (_, bodyOf) => {
    await uncertain()
    expect([400, 409]).toContain((await settle(bodyOf(await seenOf(JOB)))).status)
    expect((await look(JOB)).record?.state).toBe('uncertain')
  })

  it.each([
    ['no own field', { 'content-type': 'application/json' }],
    ['a form', { ...OWN, 'content-type': 'application/x-www-form-urlencoded' }],
    ['another site', { ...OWN, 'sec-fetch-site': 'cross-site' }],
    ['another origin', { ...OWN, origin: 'https://evil.example' }],
  ])('refuses a request with %s', async (_, headers) => {
    await uncertain()
    const body = { key: JOB, seen: await seenOf(JOB), answer: 'release' }
    expect([403, 415]).toContain((await settle(body, headers)).status)
    expect((await look(JOB)).record?.state).toBe('uncertain')
  })

  it('refuses a client that may only look, which can still see the key', async () => {
    await uncertain()
    mayPost = false
    const body = { key: JOB, seen: await seenOf(JOB), answer: 'release' }
    expect((await settle(body)).status).toBe(404)
    expect((await look(JOB)).record?.state).toBe('uncertain')
  })

  it('is an event of the fleet, without the key', async () => {
    await uncertain()
    await settle({ key: JOB, seen: await seenOf(JOB), answer: 'release' })
    const view = (await (await ask('/api/fleet')).json()) as FleetView
    const event = view.events.find(({ type }) => type === 'idempotency.settled')
    expect(event).toMatchObject({ fields: { as: 'released' } })
    expect(JSON.stringify(view.events)).not.toContain(JOB.job)
  })
})
