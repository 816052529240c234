// Tests of the harness itself: if it injects no fault, every test that uses the fault proves
// nothing.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Redis } from 'ioredis'
import { describe, expect, onTestFinished, test } from 'vitest'
import { sentByClients } from './command-trace.ts'
import { findRedis } from './find-redis.ts'
import { assertCleanExit, startFleet } from './fleet.ts'
import { ask, burst } from './load.ts'
import { createGate, startOrigin } from './origin.ts'
import { startRedis } from './redis-server.ts'
import { startProxy } from './tcp-proxy.ts'
import { startWatchdog } from './watchdog.ts'

const relay = new URL('./servers/relay.mjs', import.meta.url)
const setAndPublish = `redis.call('SET', KEYS[1], ARGV[1]) return redis.call('PUBLISH', 'news', '1')`

function client(url: string): Redis {
  const redis = new Redis(url)
  redis.on('error', () => {})
  onTestFinished(() => redis.disconnect())
  return redis
}

async function settlesWithin(ms: number, promise: Promise<unknown>): Promise<boolean> {
  const late = Symbol('late')
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise((resolve) => {
    timer = setTimeout(resolve, ms, late)
  })
  const first = await Promise.race([promise.catch(() => {}), timeout])
  clearTimeout(timer)
  return first !== late
}

describe('a Redis server', () => {
  test('does not reply to PING while paused, and replies once resumed', async () => {
    await using server = await startRedis()
    const redis = client(server.url)
    await redis.ping()
    await server.pause()
    const late = redis.ping()
    expect(await settlesWithin(200, late)).toBe(false)
    expect(await server.answers(200)).toBe(false)
    await server.resume()
    expect(await late).toBe('PONG')
    expect(await server.answers()).toBe(true)
  })

  test('is killed, also when paused, and restarts empty on the same port', async () => {
    await using server = await startRedis()
    const redis = client(server.url)
    await redis.set('left', 'over')
    await server.pause()
    await server.kill()
    expect(await server.answers(200)).toBe(false)
    await server.restart()
    expect(await redis.get('left')).toBeNull()
    expect((await server.commandStats()).set).toBeUndefined()
  })

  test('starts its statistics at zero', async () => {
    await using server = await startRedis()
    await server.answers()
    await server.commandStats()
    expect(await server.commandStats()).toEqual({})
  })

  test('traces who sent each command', async () => {
    await using server = await startRedis()
    const trace = await server.traceCommands()
    const redis = client(server.url)
    await redis.get('a')
    await redis.eval(setAndPublish, 1, 'a', 'line\r\nbreak')
    const commands = await trace.stop()
    expect(sentByClients(commands).map(({ name }) => name)).toEqual(['get', 'eval'])
    expect(commands.filter(({ from }) => from === 'script').map(({ name }) => name)).toEqual([
      'set',
      'publish',
    ])
  })
})

describe('the search for a Redis', () => {
  test('names both ways to install one if the only allowed way finds none', async () => {
    const env = { STAMPEDE_TEST_REDIS: 'binary', PATH: '' }
    await expect(findRedis(env)).rejects.toThrow(/Install redis-server .* or start Docker/)
  })

  test('refuses a way it does not know', async () => {
    await expect(findRedis({ STAMPEDE_TEST_REDIS: 'cloud' })).rejects.toThrow(
      /one of binary, docker, apt/,
    )
  })
})

describe('the proxy', () => {
  test('stalls both directions without closing, and forwards the data afterwards', async () => {
    await using server = await startRedis()
    await using proxy = await startProxy(server.port, server.host)
    const redis = client(proxy.url)
    await redis.ping()
    proxy.stall()
    const late = redis.incr('n')
    expect(await settlesWithin(200, late)).toBe(false)
    expect(proxy.connections()).toBe(1)
    proxy.flow()
    expect(await late).toBe(1)
  })

  test('drops connections, and accepts new ones', async () => {
    await using server = await startRedis()
    await using proxy = await startProxy(server.port, server.host)
    const redis = client(proxy.url)
    await redis.ping()
    // Not once(), because once() rejects on the 'error' that comes first.
    const closed = new Promise((resolve) => redis.once('close', resolve))
    proxy.drop()
    await closed
    expect(await redis.ping()).toBe('PONG')
  })

  test('refuses new connections until it accepts again', async () => {
    await using origin = await startOrigin()
    await using proxy = await startProxy(Number(new URL(origin.url).port))
    const url = `http://127.0.0.1:${proxy.port}/`
    await proxy.refuse()
    expect((await ask(url)).error).toMatchObject({ code: 'ECONNREFUSED' })
    await proxy.accept()
    expect((await ask(url)).status).toBe(200)
  })

  test('delays each direction, by the same time for pipelined commands', async () => {
    await using server = await startRedis()
    await using proxy = await startProxy(server.port, server.host)
    const redis = client(proxy.url)
    await redis.ping()
    proxy.delay(1_500)
    const startedAt = performance.now()
    const replies = await Promise.all([redis.incr('n'), redis.incr('n'), redis.incr('n')])
    const elapsedMs = performance.now() - startedAt
    expect(replies).toEqual([1, 2, 3])
    expect(elapsedMs).toBeGreaterThanOrEqual(2_995)
    expect(elapsedMs).toBeLessThan(8_900)
  })
})

describe('the origin', () => {
  test('holds calls until the test opens its gate, and counts them', async () => {
    await using origin = await startOrigin()
    const gate = createGate()
    origin.answer('/slow', { gate, body: 'let through' })
    const pending = burst([`${origin.url}/slow`], 20)
    await origin.arrived('/slow', 20)
    expect(origin.calls('/slow')).toBe(20)
    expect(await settlesWithin(50, pending)).toBe(false)
    gate.open()
    expect(new Set((await pending).map(({ body }) => body))).toEqual(new Set(['let through']))
  })
})

describe('a fleet', () => {
  test('spreads a burst over its members, which exit cleanly', async () => {
    await using origin = await startOrigin()
    await using fleet = await startFleet({
      size: 3,
      entry: relay,
      env: { ORIGIN_URL: origin.url },
    })
    const answers = await burst(
      fleet.urls.map((url) => `${url}/page`),
      30,
    )
    expect(answers.map(({ status }) => status)).toEqual(Array(30).fill(200))
    expect(answers.slice(0, 3).map(({ headers }) => headers['x-member'])).toEqual(['0', '1', '2'])
    expect(origin.calls('/page')).toBe(30)
    for (const member of fleet.members) await assertCleanExit(member)
  })

  test('freezes a member, resumes it, and stops one that is frozen', async () => {
    await using fleet = await startFleet({ size: 1, entry: relay })
    const [member] = fleet.members
    if (!member) throw new Error('No member')
    member.pause()
    const late = member.ask('hello')
    expect(await settlesWithin(200, late)).toBe(false)
    member.resume()
    expect(await late).toMatchObject({ echo: 'hello' })
    member.pause()
    expect(await member.stop()).toEqual({ code: 0, signal: null })
  })

  test('distinguishes a killed member from one that stopped', async () => {
    await using fleet = await startFleet({ size: 1, entry: relay })
    const [member] = fleet.members
    expect(await member?.kill()).toEqual({ code: null, signal: 'SIGKILL' })
    await expect(member?.ask('hello')).rejects.toThrow('exited before it replied')
  })

  test('detects an unhandled rejection and a member that does not end by itself', async () => {
    await using fleet = await startFleet({ size: 2, entry: relay })
    const [rejecting, lingering] = fleet.members
    if (!rejecting || !lingering) throw new Error('No members')
    await rejecting.ask('reject').catch(() => {})
    await expect(assertCleanExit(rejecting)).rejects.toThrow(/code 1[\s\S]*nobody handles this/)
    await lingering.ask('linger')
    await expect(assertCleanExit(lingering, 300)).rejects.toThrow('signal SIGKILL')
  })

  test('reports a member that cannot start, with its output', async () => {
    const entry = new URL('./servers/missing.mjs', import.meta.url)
    await expect(startFleet({ size: 2, entry })).rejects.toThrow(/before it listened[\s\S]*missing/)
  })
})

test('the watchdog kills every process on its list when its pipe ends', async () => {
  const start = () => spawn('sleep', ['60'], { stdio: 'ignore' })
  const [first, stopped, last] = [start(), start(), start()]
  onTestFinished(() => void stopped.kill('SIGKILL'))
  const watchdog = startWatchdog()
  for (const { pid } of [first, stopped, last]) watchdog.add(pid ?? 0)
  watchdog.remove(stopped.pid ?? 0)
  const gone = Promise.all([once(first, 'exit'), once(last, 'exit')])
  watchdog.close()
  await gone
  expect([first, stopped, last].map(({ signalCode }) => signalCode)).toEqual([
    'SIGKILL',
    null,
    'SIGKILL',
  ])
})
