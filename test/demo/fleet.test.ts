// The demo as a fleet: it starts its processes and a Redis, and stops all of them, however it ends.

import { once } from 'node:events'
import { Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Demo, startDemo } from '../harness/demo.ts'
import { freePort } from '../harness/free-port.ts'
import { signal } from '../harness/guard.ts'
import { waitUntil } from '../harness/wait-until.ts'

const JSON_TYPE = { 'content-type': 'application/json' }

async function open(env: Record<string, string> = {}, app = 'shop-express'): Promise<Demo> {
  const demo = startDemo(app, { PORT: String(await freePort()), ORIGIN_LATENCY_MS: '50', ...env })
  await demo.ready()
  return demo
}

interface Stats {
  readonly framework: string
  readonly store: string
  readonly fleet: {
    readonly ownsRedis: boolean
    readonly processes: readonly { number: number; pid: number; state: string }[]
  } | null
}

async function stats(demo: Demo): Promise<Stats> {
  return (await fetch(`${demo.url}/api/lab/stats`)).json() as Promise<Stats>
}

async function pidsOf(demo: Demo): Promise<number[]> {
  const { fleet } = await stats(demo)
  return fleet?.processes.map(({ pid }) => pid) ?? []
}

function redisPortOf(demo: Demo): number {
  return Number(/redis:\/\/127\.0\.0\.1:(\d+)/.exec(demo.output())?.[1])
}

const isAlive = (pid: number) => signal(pid, 0 as unknown as NodeJS.Signals)

function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = new Socket()
    socket.once('error', () => resolve(false))
    socket.connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
  })
}

describe('the demo while it starts', { timeout: 150_000 }, () => {
  const startOf = async (env: Record<string, string> = {}) =>
    startDemo('shop-express', { PORT: String(await freePort()), ORIGIN_LATENCY_MS: '50', ...env })

  it.each(['SIGINT', 'SIGTERM'] as const)(
    'says that it stops, and ends, after a %s',
    async (name) => {
      const demo = await startOf()
      const closed = once(demo.child, 'close')
      await waitUntil('the start', () => demo.output().includes('Starting the shop'), 60_000)
      // The terminal and npm both send it.
      demo.child.kill(name)
      demo.child.kill(name)
      await waitUntil('the answer to the signal', () => demo.output().includes('Stopping'), 60_000)
      expect((await closed)[0]).toBe(0)
      expect(demo.output()).not.toContain('http://')
      expect(demo.output()).not.toMatch(/could not start|While stopping/)
    },
  )

  it('ends at once after a second signal', async () => {
    const demo = await startOf({ ORIGIN_LATENCY_MS: '3000', PROCESSES: '1' })
    const closed = once(demo.child, 'close')
    await demo.ready()
    // The first signal waits for this request.
    const open = fetch(`${demo.url}/api/products/7`).catch(() => undefined)
    await stats(demo)
    demo.child.kill('SIGINT')
    await waitUntil('the answer to the signal', () => demo.output().includes('Stopping'), 60_000)
    const again = setInterval(() => demo.child.kill('SIGINT'), 200)
    expect((await closed)[0]).toBe(1)
    clearInterval(again)
    await open
  })
})

describe('the demo with a Redis of its own', { timeout: 150_000 }, () => {
  let demo: Demo

  beforeAll(async () => {
    demo = await open()
  }, 120_000)

  afterAll(() => demo?.stop())

  it('runs the shop in three processes that share one cache', async () => {
    const { fleet, framework, store } = await stats(demo)
    expect({ framework, store, ownsRedis: fleet?.ownsRedis }).toEqual({
      framework: 'Express',
      store: 'Redis',
      ownsRedis: true,
    })
    const statuses = []
    for (let i = 0; i < 4; i++) {
      const { headers } = await fetch(`${demo.url}/api/products/3`)
      statuses.push(headers.get('cache-status'))
    }
    expect(statuses[0]).toMatch(/^Stampede; fwd=uri-miss.*; stored/)
    for (const status of statuses.slice(1)) expect(status).toMatch(/^Stampede; hit/)
  })

  it.each([
    [true, 1],
    ['per-process', 3],
    [false, 60],
  ])('runs a stampede of the README with cached=%s in %i queries', async (cached, originRuns) => {
    const body = JSON.stringify({ requests: 60, path: '/api/products', cached })
    const options = { method: 'POST', headers: JSON_TYPE, body }
    const response = await fetch(`${demo.url}/api/lab/stampede`, options)
    expect(await response.json()).toMatchObject({ originRuns, statuses: { 200: 60 } })
  })

  it('places one order for many clicks with a key, over all processes', async () => {
    const body = JSON.stringify({ productId: 9, clicks: 30, keyed: true })
    const headers = { ...JSON_TYPE, 'x-customer': 'ada' }
    const response = await fetch(`${demo.url}/api/lab/double-click`, {
      method: 'POST',
      headers,
      body,
    })
    expect(await response.json()).toMatchObject({ rows: 1, later: '201 replayed' })
  })

  it('has its dashboard at /dashboard/, for this machine only', async () => {
    const status = async (headers = {}) =>
      (await fetch(`${demo.url}/dashboard/`, { headers })).status
    expect(await status()).toBe(200)
    expect(await status({ forwarded: 'for=192.0.2.1' })).toBe(404)
  })

  it('starts a killed process again, and serves meanwhile', async () => {
    const [first = 0] = await pidsOf(demo)
    process.kill(first, 'SIGKILL')
    const replies = await Promise.all(
      Array.from({ length: 12 }, () => fetch(`${demo.url}/api/products/4`)),
    )
    expect(replies.map(({ status }) => status)).toEqual(Array(12).fill(200))
    await expect
      .poll(async () => (await stats(demo)).fleet?.processes[0], { timeout: 20_000 })
      .toMatchObject({ number: 1, state: 'up' })
    expect(await pidsOf(demo)).not.toContain(first)
  })

  it.each([
    { lane: 'fast', fault: 'none', requests: 5 },
    { lane: 'none', fault: 'fire', requests: 5 },
    { lane: 'none', fault: 'none', requests: 1_001 },
    { lane: 'none', fault: 'none' },
    { lane: 'none', fault: 'none', requests: 5, url: 'http://other.example/' },
  ])('refuses the run %j', async (order) => {
    const options = { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(order) }
    expect((await fetch(`${demo.url}/api/lab/lane`, options)).status).toBe(400)
  })

  it('lets no other machine use the lab', async () => {
    const headers = { ...JSON_TYPE, 'x-forwarded-for': '203.0.113.5' }
    const body = JSON.stringify({ lane: 'none', fault: 'none', requests: 1 })
    const run = await fetch(`${demo.url}/api/lab/lane`, { method: 'POST', headers, body })
    expect(run.status).toBe(403)
    for (const path of ['/api/lab/events', '/api/lab/stats']) {
      expect((await fetch(demo.url + path, { headers })).status).toBe(403)
    }
  })
})

describe.each(['shop-express', 'shop-koa'])('%s as a fleet', { timeout: 150_000 }, (app) => {
  it('stops all it has started after SIGTERM', async () => {
    const demo = await open({}, app)
    const pids = await pidsOf(demo)
    const port = redisPortOf(demo)
    expect([pids.map(isAlive), await isOpen(port)]).toEqual([[true, true, true], true])
    const { code } = await demo.stop()
    expect(code, demo.output()).toBe(0)
    expect([pids.map(isAlive), await isOpen(port)]).toEqual([[false, false, false], false])
  })

  // Both demos start and watch their processes in the same way (apps/shop/src/launch.ts).
  if (app === 'shop-koa') return

  it('leaves nothing behind if it is killed, not even a frozen process', async () => {
    const demo = await open({}, app)
    const pids = await pidsOf(demo)
    const port = redisPortOf(demo)
    signal(pids[1] as number, 'SIGSTOP')
    demo.child.kill('SIGKILL')
    await expect.poll(() => pids.some(isAlive)).toBe(false)
    await expect.poll(() => isOpen(port)).toBe(false)
  })
})

describe('the demo without a redis-server', { timeout: 150_000 }, () => {
  it('says in one line how to install Redis, and compares no cache with Stampede', async () => {
    const demo = await open({ PATH: '' })
    expect(demo.output()).toMatch(
      /^No redis-server on the PATH: .*apt-get install redis-server, or brew install redis\.$/m,
    )
    const { fleet, store } = await stats(demo)
    expect({ fleet, store }).toEqual({ fleet: null, store: 'memory' })
    const runsOf = async (cached: boolean) => {
      const body = JSON.stringify({ requests: 20, path: '/api/products', cached })
      const options = { method: 'POST', headers: JSON_TYPE, body }
      return (await fetch(`${demo.url}/api/lab/stampede`, options)).json()
    }
    expect(await runsOf(false)).toMatchObject({ originRuns: 20 })
    expect(await runsOf(true)).toMatchObject({ originRuns: 1 })
    expect((await demo.stop()).code).toBe(0)
  })
})
