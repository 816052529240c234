// OpenTelemetry spans of two processes on one Redis: each span is in the trace of its own request.

import { createStampede, type Stampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import { instrumentStampede } from '@stampede/otel'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { RecordedSpans } from '../../packages/otel/src/testing/recorded-spans.ts'
import { listen } from '../harness/apps.ts'
import { PATIENT } from '../harness/patient.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'

let redis: RedisServer
let spans: RecordedSpans
let stop: () => void
const ends: (() => unknown)[] = []

beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())
beforeEach(async () => {
  const client = new Redis(redis.url)
  await client.flushall()
  client.disconnect()
  spans = new RecordedSpans().registerContext()
  stop = instrumentStampede()
})
afterEach(async () => {
  stop()
  for (const end of ends.splice(0).reverse()) await end()
  await spans.stop()
})

interface App {
  readonly stampede: Stampede
  readonly get: () => Promise<string>
}

/** An app with its own Stampede, as one process of a fleet. */
async function start(name: string, handler: () => Promise<unknown>): Promise<App> {
  const client = new Redis(redis.url)
  const stampede = createStampede({ store: redisStore(client, PATIENT) })
  const app = express()
  const tracer = spans.provider.getTracer('http')
  app.use((_req, res, next) => {
    tracer.startActiveSpan(`request of ${name}`, (span) => {
      res.once('close', () => span.end())
      next()
    })
  })
  const options = { stampede, ttlMs: 1_000, staleWhileRevalidateMs: 60_000, key: () => 'page' }
  app.get('/', stampedeCache(options), async (_req, res) => {
    res.json(await handler())
  })
  const server = await listen(app)
  ends.push(
    () => client.disconnect(),
    () => stampede.close(),
    () => server[Symbol.asyncDispose](),
  )
  return { stampede, get: async () => (await fetch(server.url)).text() }
}

function gate() {
  let open = (): void => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

/** Resolves when the Stampede has emitted the event. */
function happened(stampede: Stampede, type: 'fill.started' | 'wait.started' | 'fill.committed') {
  return new Promise<void>((resolve) => {
    const off = stampede.on(type, () => {
      off()
      resolve()
    })
  })
}

const query = () => spans.provider.getTracer('db').startSpan('query').end()

it('puts the wait of another process under its own request', async () => {
  const handler = gate()
  const a = await start('a', async () => {
    await handler.opened
    query()
    return 1
  })
  const b = await start('b', async () => 2)
  const filling = happened(a.stampede, 'fill.started')
  const first = a.get()
  await filling
  const waiting = happened(b.stampede, 'wait.started')
  const second = b.get()
  await waiting
  handler.open()
  expect(await Promise.all([first, second])).toEqual(['1', '1'])
  await expect.poll(() => spans.named('request of b').length).toBe(1)
  await expect.poll(() => spans.named('stampede.fill').length).toBe(1)
  await expect
    .poll(() => spans.tree())
    .toEqual([
      'request of a',
      '  stampede.lookup led',
      '    stampede.fill committed',
      '      query',
      'request of b',
      '  stampede.lookup hit',
      '    stampede.wait hit',
    ])
  expect(spans.named('stampede.wait')[0]?.links).toEqual([])
  expect(spans.named('stampede.lookup')[1]?.attributes['stampede.tier']).toBe('l2')
})

it('begins a new trace for a refresh of an entry that another process stored', async () => {
  const a = await start('a', async () => 1)
  const b = await start('b', async () => {
    query()
    return 2
  })
  const stored = happened(a.stampede, 'fill.committed')
  await a.get()
  await stored
  await expect
    .poll(() => b.get().then(() => spans.named('stampede.refresh').length), {
      timeout: 5_000,
      interval: 200,
    })
    .toBe(1)
  const lines = spans.tree()
  const at = lines.indexOf('stampede.refresh committed')
  expect(lines.slice(at, at + 4)).toEqual([
    'stampede.refresh committed',
    '  stampede.fill committed',
    '    request of b',
    '      query',
  ])
  const [refresh] = spans.named('stampede.refresh')
  const begunBy = refresh?.links[0]?.context.spanId
  const lookup = spans.all.find((span) => span.spanContext().spanId === begunBy)
  expect(lookup?.attributes['stampede.outcome']).toBe('stale')
})
