// Idempotency keys on a slow and broken connection to Redis: duplicates at every moment of a
// request's end, and lost replies of Redis.

import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { beforeEach, expect, it } from 'vitest'
import {
  countRuns,
  currentIdempotentFrameworks,
  type Post,
  post,
  type Visit,
} from '../harness/idempotent-apps.ts'
import { createGate } from '../harness/origin.ts'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { startProxy } from '../harness/tcp-proxy.ts'

const { server, admin } = await redisOfFile()
beforeEach(() => admin.flushall())

const [express] = currentIdempotentFrameworks

/** An app that reaches Redis through the test's proxy, and one that reaches it directly. */
async function start(handler: Parameters<typeof countRuns>[0], store: object = PATIENT) {
  const { visit, runs } = countRuns(handler)
  const proxy = await startProxy(server.port, server.host)
  const outcomes: string[] = []
  const open = async (url: string) => {
    const redis = new Redis(url, { lazyConnect: true })
    const stampede = createStampede({
      store: redisStore(redis, { prefix: 't', ...store }),
    })
    stampede.on('idempotency.answered', ({ outcome }) => void outcomes.push(outcome))
    const app = await express?.start({ stampede, visit })
    if (app === undefined) throw new Error('there is no framework')
    return { stampede, app }
  }
  const [far, near] = [await open(proxy.url), await open(server.url)]
  // Both are connected and have loaded the scripts.
  for (const { app } of [far, near]) await post(`${app.url}/warm-up`, { key: app.url })
  outcomes.length = 0
  const state = async (): Promise<string | null> => {
    for (const name of await admin.keys('t:*')) {
      const [found, steps] = await admin.hmget(name, 's', 'exact')
      if (steps !== null && found !== 'completed') return found ?? null
    }
    return null
  }
  return {
    proxy,
    outcomes,
    state,
    far: (with_: Post = {}) => post(`${far.app.url}/orders`, with_),
    near: (with_: Post = {}) => post(`${near.app.url}/orders`, with_),
    unstored: () => far.stampede.stats().idempotency.unstored,
    runs: () => runs('/orders'),
    async [Symbol.asyncDispose]() {
      proxy.flow()
      for (const { app, stampede } of [far, near]) {
        await app[Symbol.asyncDispose]()
        await stampede.close()
      }
      await proxy.stop()
    },
  }
}

it('a duplicate that arrives while the attempt ends gets 409 or the replay, and never runs', async () => {
  const gate = createGate()
  const handler = async ({ req, run }: Visit) => {
    if (req.url === '/orders') await gate.opened
    return { status: 201, body: `run ${run}` }
  }
  await using apps = await start(handler)
  const first = apps.far()
  await expect.poll(apps.runs).toBe(1)
  apps.proxy.stall()
  gate.open()
  expect((await apps.near()).status).toBe(409)
  // Now Redis gets the end. Its reply is still on its way.
  apps.proxy.stall('replies')
  await expect.poll(apps.state, { timeout: 20_000 }).toBe(null)
  expect(String((await apps.near()).body)).toBe('run 1')
  apps.proxy.flow()
  expect(String((await first).body)).toBe('run 1')
  expect(apps.runs()).toBe(1)
})

it('a begin command whose reply was lost with the connection runs once, and waits for no lease', async () => {
  await using apps = await start(({ run }) => ({ status: 201, body: `run ${run}` }))
  apps.proxy.delay(1_500)
  const first = apps.far()
  await expect.poll(apps.state, { interval: 5 }).toBe('running')
  apps.proxy.drop()
  apps.proxy.delay(0)
  const { status } = await first
  // ioredis repeats the command itself, or the client repeats its request. Neither has to wait for
  // a lease.
  expect([201, 503]).toContain(status)
  const retried = async () => (await apps.near()).status
  await expect.poll(retried).toBe(201)
  expect(String((await apps.near()).body)).toBe('run 1')
  expect(apps.runs()).toBe(1)
})

it('the result of an attempt is stored once when it is sent again after a lost reply', async () => {
  const gate = createGate()
  const handler = async ({ req, run }: Visit) => {
    if (req.url === '/orders') await gate.opened
    return { status: 201, body: `run ${run}` }
  }
  await using apps = await start(handler)
  const first = apps.far()
  await expect.poll(apps.state).toBe('running')
  apps.proxy.delay(1_500)
  gate.open()
  await expect.poll(apps.state, { interval: 5 }).toBe(null)
  apps.proxy.drop()
  apps.proxy.delay(0)
  expect(await first).toMatchObject({ status: 201, cut: false })
  await expect.poll(apps.unstored).toBe(0)
  for (const ask of [apps.far, apps.near]) expect(String((await ask()).body)).toBe('run 1')
  expect(apps.runs()).toBe(1)
})

it('a request gets 503 after its time budget if the connection to Redis is silent', async () => {
  await using apps = await start(() => ({ status: 201 }), { commandTimeoutMs: 900 })
  apps.proxy.stall()
  expect(await apps.far()).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
  expect(apps.runs()).toBe(0)
})

it('a record takes less than 1 kB plus 1.25 times its body', async () => {
  const stampede = createStampede({
    store: redisStore(new Redis(server.url, { lazyConnect: true }), { prefix: 'm', ...PATIENT }),
  })
  const body = 'x'.repeat(100_000)
  const app = await express?.start({
    stampede,
    visit: ({ req }) => ({ body: req.url === '/big' ? body : '' }),
  })
  for (const path of ['/small', '/big']) await post(`${app?.url}${path}`, { key: path })
  const sizes: number[] = []
  for (const name of await admin.keys('m:*{=i:*')) {
    sizes.push(Number(await admin.call('MEMORY', 'USAGE', name, 'SAMPLES', '0')))
  }
  const [small = 0, big = 0] = sizes.sort((a, b) => a - b)
  expect(sizes).toHaveLength(2)
  expect(small).toBeLessThan(1_000)
  expect(big).toBeLessThan(1_000 + 1.25 * body.length)
  await app?.[Symbol.asyncDispose]()
  await stampede.close()
})
