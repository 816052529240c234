// A real Prometheus scrapes a real Express app with two Stampedes on one Redis, and is asked for
// the values.

import { execFileSync } from 'node:child_process'
import { createServer, type Server } from 'node:http'
import { createStampede, type Stampede } from '@stampede/core'
import { idempotency, stampedeCache } from '@stampede/express'
import { stampedeMetrics } from '@stampede/metrics'
import { redisStore } from '@stampede/redis'
import express, { type Express } from 'express'
import { Redis } from 'ioredis'
import { Registry } from 'prom-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { METRICS } from '../../packages/metrics/src/metric-table.ts'
import { listenOn } from '../harness/apps.ts'
import { createGate } from '../harness/origin.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'
import { waitUntil } from '../harness/wait-until.ts'
import { findProgram, HOW_TO_INSTALL, type Prometheus, startPrometheus } from './prometheus.ts'
import { alerts, metricsIn, panelQueries, RULES_FILE } from './queries.ts'

const prometheusPath = findProgram('prometheus')
const promtoolPath = findProgram('promtool')
const isInstalled = prometheusPath !== undefined && promtoolPath !== undefined

const LOCKS = {
  ...{ acquired: 9, contended: 4, timedOut: 3, aborted: 2, lost: 1, released: 7, unavailable: 5 },
  ...{ waitedMs: 1_500, heldMs: 2_500, held: 6, waiting: 8 },
}

const closers: (() => unknown)[] = []
const registry = new Registry()
const gate = createGate()
let redis: RedisServer
let prometheus: Prometheus
/** Addresses of two apps. They have a Stampede each, like two processes of a fleet. */
let shops: string[]

async function listen(server: Server): Promise<string> {
  const app = await listenOn(server)
  closers.push(() => app[Symbol.asyncDispose]())
  return new URL(app.url).host
}

function createShop(stampede: Stampede): Express {
  const app = express()
  // The two apps have different ports, which the key would contain.
  const cached = stampedeCache({ stampede, ttlMs: 60_000, key: (req) => req.originalUrl })
  app.get('/products/:id', cached, (req, res) => {
    res.json({ id: req.params.id })
  })
  app.get('/slow', cached, async (_req, res) => {
    await gate.opened
    res.json({})
  })
  app.get('/account', cached, (_req, res) => {
    res.set('Cache-Control', 'private').json({})
  })
  app.post('/orders', idempotency({ stampede, scope: () => 'all' }), (_req, res) => {
    res.status(201).json({})
  })
  return app
}

const get = async (url: string, init?: RequestInit): Promise<number> => {
  const response = await fetch(`http://${url}`, init)
  await response.arrayBuffer()
  return response.status
}

/** The value of a query, once it is the expected one. */
async function expectValue(expression: string, expected: number): Promise<void> {
  let seen: unknown
  const isThere = async () => {
    seen = (await prometheus.query(expression)).map(({ value }) => Number(value[1]))
    return String(seen) === String([expected])
  }
  await waitUntil(expression, isThere).catch(() => expect(seen, expression).toEqual([expected]))
}

describe.skipIf(!isInstalled)(`a real Prometheus${isInstalled ? '' : HOW_TO_INSTALL}`, () => {
  beforeAll(async () => {
    redis = await startRedis()
    const names = ['one', 'two']
    shops = await Promise.all(
      names.map(async (name) => {
        const client = new Redis(redis.url)
        const stampede = createStampede({ store: redisStore(client) })
        const locks = { stats: () => LOCKS }
        const metrics = stampedeMetrics({ stampede, locks, registry, labels: { stampede: name } })
        closers.push(async () => {
          metrics.close()
          await stampede.close()
          client.disconnect()
        })
        return listen(createServer(createShop(stampede)))
      }),
    )
    const target = await listen(
      createServer(async (_req, res) => {
        res.setHeader('Content-Type', registry.contentType).end(await registry.metrics())
      }),
    )
    prometheus = await startPrometheus(prometheusPath ?? '', target, RULES_FILE)
    // The first samples, so that the traffic is an increase.
    await expectValue('stampede_fills_started_total{stampede="one"}', 0)
  })

  afterAll(async () => {
    await prometheus?.[Symbol.asyncDispose]()
    for (const close of closers.reverse()) await close()
    await redis?.stop()
  })

  it('has the traffic of an app, by route and outcome', async () => {
    const [one = '', two = ''] = shops
    await get(`${one}/products/7`)
    // A response may arrive before its commit.
    await expectValue('sum(stampede_fills_total{outcome="committed"})', 1)
    for (const shop of [one, one, two]) await get(`${shop}/products/7`)
    await get(`${one}/products/8`, { headers: { cookie: 'session=1' } })
    await get(`${one}/account`)
    const requests = 'stampede_requests_total{route="/products/:id"'
    await expectValue(`${requests}, stampede="one", outcome="miss"}`, 1)
    await expectValue(`${requests}, stampede="one", outcome="hit"}`, 2)
    await expectValue(`${requests}, stampede="one", outcome="bypass"}`, 1)
    await expectValue(`${requests}, stampede="two", outcome="hit"}`, 1)
    await expectValue('stampede_hits_total{stampede="one", tier="l1"}', 2)
    await expectValue('stampede_hits_total{stampede="two", tier="l2"}', 1)
    await expectValue('stampede_bypasses_total{reason="cookie"}', 1)
    await expectValue('stampede_responses_not_stored_total{reason="private"}', 1)
    await expectValue(
      'stampede_fill_duration_seconds_count{stampede="one", outcome="committed"}',
      1,
    )
    await expectValue('stampede_l1_entries{stampede="two"}', 1)
    await expectValue('sum(stampede_served_bytes_total)', 3 * '{"id":"7"}'.length)
  })

  it('has the wait of one process for the fill of another', async () => {
    const [one = '', two = ''] = shops
    const leader = get(`${one}/slow`)
    await expectValue('stampede_leases{stampede="one"}', 1)
    const waiter = get(`${two}/slow`)
    await expectValue('stampede_waits_started_total{stampede="two"}', 1)
    gate.open()
    expect(await Promise.all([leader, waiter])).toEqual([200, 200])
    const waits = 'stampede_wait_duration_seconds'
    await expectValue(`${waits}_count{stampede="two", ended_by="wake-up"}`, 1)
    await expectValue(`${waits}_bucket{stampede="two", ended_by="wake-up", le="0.001"}`, 0)
    await expectValue(`${waits}_bucket{stampede="two", ended_by="wake-up", le="30"}`, 1)
    await expectValue('stampede_leases{stampede="one"}', 0)
  })

  it('has the outcomes of idempotency keys and locks', async () => {
    const [one = '', two = ''] = shops
    const order = { method: 'POST', headers: { 'idempotency-key': '"order-7"' } }
    for (const shop of [one, one, two]) expect(await get(`${shop}/orders`, order)).toBe(201)
    const requests = 'stampede_idempotency_requests_total'
    await expectValue(`${requests}{stampede="one", outcome="started"}`, 1)
    await expectValue(`sum(${requests}{outcome=~"replayed.*"})`, 2)
    await expectValue('stampede_lock_calls_total{stampede="one", outcome="timed-out"}', 3)
    await expectValue('stampede_lock_wait_seconds_total{stampede="one"}', 1.5)
  })

  it('has all metrics that the dashboard and the alerts use', async () => {
    const names = await prometheus.names()
    const used = [...panelQueries, ...alerts].flatMap(({ expr }) => metricsIn(expr))
    expect(used.filter((name) => !names.includes(name))).toEqual([])
    expect(Object.keys(METRICS).filter((name) => !names.includes(`stampede_${name}`))).toEqual([])
  })

  it.each(panelQueries)('has a result for the panel $panel: $expr', async ({ expr }) => {
    await waitUntil(expr, async () => (await prometheus.query(expr)).length > 0)
  })

  it('evaluates all alerts without an error', async () => {
    const evaluated = async () => (await prometheus.rules()).every(({ health }) => health === 'ok')
    await waitUntil('all alerts are evaluated', evaluated)
    const names = (await prometheus.rules()).map(({ name }) => name)
    expect(names.sort()).toEqual(alerts.map(({ name }) => name).sort())
  })

  it('shows the store as unavailable while Redis is frozen, and the age of the confirmation', async () => {
    const [one = ''] = shops
    await redis.pause()
    try {
      // Three failures in a row open the circuit breaker.
      await Promise.all([1, 2, 3, 4].map((id) => get(`${one}/products/cold-${id}`)))
      await expectValue('stampede_store_available{stampede="one"}', 0)
      await expectValue('stampede_store_failures_total{stampede="one"} > bool 2', 1)
      await expectValue('stampede_store_confirmed_age_seconds{stampede="one"} > bool 1', 1)
    } finally {
      await redis.resume()
    }
    await expectValue('stampede_store_available{stampede="one"}', 1)
    await expectValue('stampede_store_confirmed_age_seconds{stampede="one"} < bool 3', 1)
  })

  it('gets names and help texts without a fault for promtool', async () => {
    const input = await registry.metrics()
    const check = () =>
      execFileSync(promtoolPath ?? '', ['check', 'metrics'], { input, stdio: 'pipe' })
    expect(check().toString()).toBe('')
  })
})
