// Spans and metrics by a real OpenTelemetry SDK with in-memory exporters, for Express and data.

import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { metrics as meters, SpanStatusCode, trace } from '@opentelemetry/api'
import {
  AggregationTemporality,
  type DataPoint,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { createStampede, memoryStore, type Stampede } from '@stampede/core'
import { ManualClock, ScriptedOrigin, settled } from '@stampede/core/testing'
import { idempotency, stampedeCache } from '@stampede/express'
import { createLocks } from '@stampede/locks'
import express from 'express'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { instrumentStampede, type StampedeInstrumentation } from './instrument.ts'
import { RecordedSpans } from './testing/recorded-spans.ts'

let spans: RecordedSpans
let clock: ManualClock
let stampede: Stampede
let stop: () => void
const servers: Server[] = []

beforeEach(() => {
  spans = new RecordedSpans().registerContext()
  clock = new ManualClock()
  stampede = createStampede({ clock })
  stop = instrumentStampede()
})
afterEach(async () => {
  stop()
  for (const server of servers.splice(0)) server.close()
  await stampede.close()
  await spans.stop()
})

/** An Express app whose requests have spans, as an instrumentation of HTTP makes them. */
async function listen(mount: (app: express.Express) => void): Promise<string> {
  const app = express()
  const tracer = spans.provider.getTracer('http')
  app.use((req, res, next) => {
    tracer.startActiveSpan(`${req.method} ${req.path}`, (span) => {
      res.once('close', () => span.end())
      next()
    })
  })
  mount(app)
  const server = app.listen(0)
  servers.push(server)
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** A span that the handler starts, such as that of a query. */
function query(): void {
  spans.provider.getTracer('db').startSpan('query').end()
}

async function get(url: string): Promise<string> {
  const body = await (await fetch(url)).text()
  await settled()
  return body
}

describe('the spans of a cached route', () => {
  it('have the request as parent, and the handler inside the fill', async () => {
    const url = await listen((app) => {
      app.get('/a', stampedeCache({ stampede, ttlMs: 1_000 }), async (_req, res) => {
        await settled()
        query()
        res.json(1)
      })
    })
    await get(`${url}/a`)
    expect(spans.tree()).toEqual([
      'GET /a',
      '  stampede.lookup led',
      '    stampede.fill committed',
      '      query',
    ])
    const [fill] = spans.named('stampede.fill')
    expect(fill?.attributes).toEqual({
      'stampede.key': `GET ${url}/a`,
      'stampede.fill.background': false,
      'stampede.outcome': 'committed',
      'stampede.fence': expect.any(Number),
      'http.response.status_code': 200,
    })
  })

  it('have one lookup for a hit', async () => {
    const url = await listen((app) => {
      app.get('/a', stampedeCache({ stampede, ttlMs: 1_000 }), (_req, res) => void res.json(1))
    })
    await get(`${url}/a`)
    spans.exporter.reset()
    await get(`${url}/a`)
    expect(spans.tree()).toEqual(['GET /a', '  stampede.lookup hit'])
    expect(spans.named('stampede.lookup')[0]?.attributes['stampede.tier']).toBe('l1')
  })

  it('link the wait of a request to the fill of another one', async () => {
    const origin = new ScriptedOrigin<number>()
    const call = () => stampede.getOrSet('k', origin.factory, { ttlMs: 1_000 })
    const first = spans.inside('first', call)
    const second = spans.inside('second', call)
    await settled()
    origin.run(0).resolve(7)
    await Promise.all([first, second])
    await settled()
    expect(spans.tree()).toEqual([
      'first',
      '  stampede.lookup led',
      '    stampede.fill committed',
      'second',
      '  stampede.lookup collapsed',
      '    stampede.wait collapsed',
    ])
    const [fill] = spans.named('stampede.fill')
    const [wait] = spans.named('stampede.wait')
    expect(wait?.links.map((link) => link.context)).toEqual([fill?.spanContext()])
    expect(wait?.spanContext().traceId).not.toBe(fill?.spanContext().traceId)
  })

  it('begin a new trace for a refresh, with a link to the lookup that began it', async () => {
    const url = await listen((app) => {
      const cache = stampedeCache({ stampede, ttlMs: 1_000, staleWhileRevalidateMs: 60_000 })
      app.get('/a', cache, (_req, res) => {
        query()
        res.json(1)
      })
    })
    await get(`${url}/a`)
    await clock.advance(2_000)
    spans.exporter.reset()
    await get(`${url}/a`)
    await expect.poll(() => spans.named('stampede.refresh').length).toBe(1)
    expect(spans.tree()).toEqual([
      'GET /a',
      '  stampede.lookup stale',
      'stampede.refresh committed',
      '  stampede.fill committed',
      // The refresh goes through the whole app, so its middlewares run again.
      '    GET /a',
      '      query',
    ])
    const [lookup] = spans.named('stampede.lookup')
    const [refresh] = spans.named('stampede.refresh')
    expect(refresh?.links.map((link) => link.context)).toEqual([lookup?.spanContext()])
  })

  it('have the error of a factory that throws, as status and as exception', async () => {
    const down = Object.assign(new Error('down'), { code: 'E_DOWN' })
    const failing = () => Promise.reject(down)
    await expect(stampede.getOrSet('k', failing, { ttlMs: 1_000 })).rejects.toThrow('down')
    await settled()
    const [fill] = spans.named('stampede.fill')
    expect(fill?.status).toEqual({ code: SpanStatusCode.ERROR, message: 'down' })
    expect(fill?.attributes).toMatchObject({ 'error.type': 'E_DOWN', 'stampede.outcome': 'failed' })
    expect(fill?.events.map(({ name }) => name)).toEqual(['exception'])
    expect(spans.named('stampede.lookup')[0]?.status.code).toBe(SpanStatusCode.UNSET)
  })
})

describe('the spans of idempotency keys and locks', () => {
  it('have no idempotency key and, without `keys`, no key of a lock in their exceptions', async () => {
    stop()
    stop = instrumentStampede({ keys: false })
    await stampede.idempotent('job:s3cret', () => 1, { input: 1 })
    await expect(stampede.idempotent('job:s3cret', () => 1, { input: 2 })).rejects.toThrow('s3cret')
    const locks = createLocks({ store: memoryStore(), clock })
    await locks.acquire('lock:s3cret')
    await expect(locks.acquire('lock:s3cret', { waitMs: 0 })).rejects.toThrow('s3cret')
    await locks.close()
    const shown = spans.all.map(({ attributes, events, status }) => [attributes, events, status])
    expect(JSON.stringify(shown)).toContain('ERR_STAMPEDE_KEY_REUSED')
    expect(JSON.stringify(shown)).not.toContain('s3cret')
  })

  it('last until the handler has ended, and do not have the key', async () => {
    const url = await listen((app) => {
      app.post('/o', idempotency({ stampede, scope: () => 'all' }), async (_req, res) => {
        await settled()
        query()
        res.status(201).json(1)
      })
    })
    const post = async () => {
      const headers = { 'idempotency-key': '"secret"' }
      await (await fetch(`${url}/o`, { method: 'POST', headers })).text()
    }
    await post()
    await post()
    expect(spans.tree()).toEqual([
      'POST /o',
      '  stampede.idempotency started',
      '    query',
      'POST /o',
      '  stampede.idempotency replayed-l1',
    ])
    const attributes = spans.all.map((span) => JSON.stringify(span.attributes)).join()
    expect(attributes).not.toContain('secret')
    expect(spans.named('stampede.idempotency')[0]?.attributes).toMatchObject({
      'stampede.idempotency.kind': 'http',
      'stampede.idempotency.end': 'completed',
    })
  })

  it('show how long a caller waited for a lock', async () => {
    const locks = createLocks({ store: memoryStore(), clock })
    const first = await locks.acquire('job')
    const second = spans.inside('worker', () => locks.acquire('job'))
    await settled()
    await first.release()
    await (await second).release()
    expect(spans.tree()).toEqual(['stampede.lock acquired', 'worker', '  stampede.lock acquired'])
    const [, waited] = spans.named('stampede.lock')
    expect(waited?.attributes).toMatchObject({
      'stampede.key': 'job',
      'stampede.lock.contended': true,
    })
    await locks.close()
  })
})

describe('instrumentStampede', () => {
  const call = () => stampede.getOrSet('k', async () => 1, { ttlMs: 1_000 })

  it('creates no more spans after it was ended', async () => {
    stop()
    await call()
    expect(spans.all).toEqual([])
  })

  it('ends the open spans when it is ended, and those operations are no longer active', async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
    const meterProvider = new MeterProvider({ readers: [reader] })
    meters.setGlobalMeterProvider(meterProvider)
    stop = instrumentStampede()
    const origin = new ScriptedOrigin<number>()
    const value = stampede.getOrSet('k', origin.factory, { ttlMs: 1_000 })
    await settled()
    stop()
    expect(spans.tree()).toEqual(['stampede.lookup unknown', '  stampede.fill unknown'])
    await reader.forceFlush()
    const metrics = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics)
    const active = metrics
      .flatMap((each) => each.metrics)
      .filter(({ descriptor }) => descriptor.name === 'stampede.operation.active')
      .flatMap(({ dataPoints }) => dataPoints.map((point) => point.value))
    expect(active).toEqual([0, 0])
    origin.run(0).resolve(1)
    expect(await value).toBe(1)
    expect(spans.all).toHaveLength(2)
    meters.disable()
    await meterProvider.shutdown()
  })

  it.each<[options: object | string, message: string]>([
    [{ tracer: {} }, 'instrumentStampede.tracer: received an object (Object); there is no such'],
    [{ keys: 'no' }, 'instrumentStampede.keys: received "no"; use true or false'],
    [{ tracerProvider: {} }, 'no such option; register it for the process: trace.setGlobal'],
    [{ meterProvider: {} }, 'no such option; register it for the process: metrics.setGlobal'],
    ['service', 'instrumentStampede: received "service"; pass an object of options'],
  ])('rejects %j, and keeps the active instrumentation', async (options, message) => {
    expect(() => instrumentStampede(options as StampedeInstrumentation)).toThrow(message)
    await call()
    await settled()
    expect(spans.named('stampede.fill')).toHaveLength(1)
  })

  it('replaces an earlier instrumentation, so that each span exists once', async () => {
    stop = instrumentStampede({ keys: false })
    await call()
    await settled()
    expect(spans.named('stampede.fill')).toHaveLength(1)
    expect(spans.named('stampede.fill')[0]?.attributes).not.toHaveProperty('stampede.key')
  })

  it('uses a context manager that is registered later', async () => {
    stop()
    await spans.stop()
    spans = new RecordedSpans()
    stop = instrumentStampede()
    await call()
    spans.registerContext()
    await call()
    await settled()
    spans.exporter.reset()
    const [active] = await Promise.all([
      stampede.getOrSet('new', async () => trace.getActiveSpan()?.spanContext(), { ttlMs: 1_000 }),
    ])
    await settled()
    expect(active?.spanId).toBe(spans.named('stampede.fill')[0]?.spanContext().spanId)
  })
})

describe('the metrics', () => {
  it('are durations in seconds by outcome, and the operations that are active', async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
    const meterProvider = new MeterProvider({ readers: [reader] })
    meters.setGlobalMeterProvider(meterProvider)
    stop = instrumentStampede()
    const origin = new ScriptedOrigin<number>()
    const call = () => stampede.getOrSet('k', origin.factory, { ttlMs: 1_000 })
    /** The data points of a metric, each as its attributes and its value or count. */
    const points = async (name: string) => {
      exporter.reset()
      await reader.forceFlush()
      const metrics = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics)
      const found = metrics
        .flatMap((scope) => scope.metrics)
        .find((m) => m.descriptor.name === name)
      return {
        unit: found?.descriptor.unit,
        points: found?.dataPoints.map(({ attributes, value }: DataPoint<unknown>) => [
          attributes,
          typeof value === 'number' ? value : (value as { count: number }).count,
        ]),
      }
    }
    const asked = [call(), call()]
    await settled()
    expect(await points('stampede.operation.active')).toEqual({
      unit: '{operation}',
      points: [
        [{ 'stampede.operation': 'lookup' }, 2],
        [{ 'stampede.operation': 'fill' }, 1],
        [{ 'stampede.operation': 'wait' }, 1],
      ],
    })
    origin.run(0).resolve(7)
    await Promise.all(asked)
    await call()
    expect(await points('stampede.lookup.duration')).toEqual({
      unit: 's',
      points: [
        [{ 'stampede.outcome': 'led' }, 1],
        [{ 'stampede.outcome': 'collapsed' }, 1],
        [{ 'stampede.outcome': 'hit', 'stampede.tier': 'l1' }, 1],
      ],
    })
    expect((await points('stampede.wait.duration')).points).toEqual([
      [{ 'stampede.outcome': 'collapsed' }, 1],
    ])
    const active = (await points('stampede.operation.active')).points ?? []
    expect(active.map(([, value]) => value)).toEqual([0, 0, 0])
    meters.disable()
    await meterProvider.shutdown()
  })
})
