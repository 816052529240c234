// Holds the permissions in docs/guide/redis.md to the code, and to a server: whoever gives a user these and no others can do
// everything.

import { readdirSync, readFileSync } from 'node:fs'
import { createStampede, type StampedeOptions } from '@stampede/core'
import { createLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from './harness/redis-server.ts'

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
const filesIn = (folder: string) =>
  readdirSync(new URL(`../${folder}`, import.meta.url)).map((name) => `${folder}/${name}`)

const LINES = read('docs/guide/redis.md').match(/^ACL SETUSER .+$/gm) ?? []
const RULES = LINES.map((line) => line.split(' ').slice(3))
/** `+cluster|slots` is a part of CLUSTER. */
const DOCUMENTED = RULES.flat()
  .filter((rule) => rule.startsWith('+'))
  .map((rule) => rule.slice(1).replace(/\|.*/, '').toUpperCase())

/** Sent by ioredis on its own: when it connects, and in a cluster. */
const BY_IOREDIS = ['INFO', 'CLUSTER', 'ASKING']

/** `redis.call('HGET', …)`, or of a table: `local read = {'HMGET', …}`, `redis.call(unpack(read))`. */
function commandsOfScript(path: string): string[] {
  const lua = read(path)
  return [...lua.matchAll(/redis\.p?call\(\s*(?:'([A-Z]+)'|unpack\((\w+)\))?/g)].map((call) => {
    const [text, literal, table] = call
    const [, first] = new RegExp(`local ${table} = \\{\\s*'([A-Z]+)'`).exec(lua) ?? []
    const command = literal ?? first
    if (command === undefined) throw new Error(`${path}: which command is ${text}…?`)
    return command
  })
}

/** What is sent by name, and what is called on a connection: a method that client.ts declares. */
function commandsOfSource(path: string, known: ReadonlySet<string>): string[] {
  const source = read(path)
  const sent = [...source.matchAll(/(?<![#\w])(?:send|ask|callBuffer)\(([^)]*)\)/g)].flatMap(
    ([text, args = '']) => {
      const [, literal] = /'([A-Z]+)'/.exec(args) ?? []
      // Handed on from one of these to the next.
      if (literal === undefined && !/\bcommand\b/.test(args)) throw new Error(`${path}: ${text}`)
      return literal ?? []
    },
  )
  if (!path.endsWith('/client.ts')) return sent
  const methods = [...source.matchAll(/^ {2}(\w+)\(.*\): /gm)].map(([, name = '']) => name)
  return [...sent, ...methods.map((name) => name.toUpperCase()).filter((name) => known.has(name))]
}

let server: RedisServer
let admin: Redis

beforeAll(async () => {
  server = await startRedis()
  admin = new Redis(server.url)
})
afterAll(async () => {
  admin.disconnect()
  await server.stop()
})

describe('the permissions in docs/guide/redis.md', () => {
  it('are what scripts, sources and ioredis use: none is missing, and none is for nothing', async () => {
    const listed = (await admin.call('COMMAND', 'LIST')) as string[]
    const known = new Set(listed.map((name) => name.toUpperCase()))
    const scripts = filesIn('lua').filter((path) => path.endsWith('.lua'))
    const sources = filesIn('packages/redis/src').filter(
      (path) => !/\.(test|generated)\.ts$/.test(path),
    )
    const used = [
      ...scripts.flatMap(commandsOfScript),
      ...sources.flatMap((path) => commandsOfSource(path, known)),
      ...BY_IOREDIS,
    ]
    // The reading finds what is known to be there, of each kind.
    expect(used).toEqual(
      expect.arrayContaining(['EVALSHA', 'SUBSCRIBE', 'PING', 'HMGET', 'ZRANGEBYSCORE']),
    )
    expect([...DOCUMENTED].sort()).toEqual([...new Set(used)].sort())
  })
})

describe('a user with these permissions and no others', () => {
  const login = { username: 'shop', password: 'secret' }
  const closing: Array<() => Promise<void>> = []

  beforeAll(async () => {
    for (const rules of RULES) await admin.call('ACL', 'SETUSER', login.username, ...rules)
  })
  beforeEach(async () => {
    await admin.flushall()
    await admin.call('ACL', 'LOG', 'RESET')
    return async () => {
      for (const close of closing.splice(0)) await close()
      expect(await refused()).toEqual([])
    }
  })

  /** What the server refused, other than what ioredis says of itself. */
  async function refused(): Promise<string[]> {
    const log = (await admin.call('ACL', 'LOG')) as string[][]
    const objects = log.map((entry) => String(entry[entry.indexOf('object') + 1]))
    return objects.filter((object) => !object.startsWith('client'))
  }

  function openStore() {
    const client = new Redis(server.url, { ...login, lazyConnect: true })
    return redisStore(client, { commandTimeoutMs: 2_000 })
  }

  function open(options: Omit<StampedeOptions, 'store'> = {}) {
    const stampede = createStampede({ store: openStore(), ...options })
    const failures: unknown[] = []
    stampede.on('store.failed', ({ operation, error }) => failures.push([operation, error]))
    closing.push(async () => {
      await stampede.close()
      expect(failures).toEqual([])
    })
    return stampede
  }

  it.each([
    { key: 'rates' },
    { tag: 'money' },
    { all: true },
  ] as const)('can fill, share and purge, hard and soft: %o', async (target) => {
    const [one, two] = [open(), open()]
    let runs = 0
    const get = (stampede: typeof one) =>
      stampede.getOrSet('rates', () => ++runs, { ttlMs: 60_000, tags: ['money'] })
    expect(await get(one)).toBe(1)
    expect(await get(two)).toBe(1)
    await one.purge(target)
    expect(await get(one)).toBe(2)
    await expect.poll(() => get(two)).toBe(2)
    await two.purge(target, { soft: true })
    expect(await get(two)).toBe(3)
    await expect.poll(() => get(one)).toBe(3)
  })

  it('is told when another process has filled, and that nothing has changed', async () => {
    const [one, two] = [open(), open()]
    const gate = Promise.withResolvers<string>()
    const begun = Promise.withResolvers<void>()
    const options = { ttlMs: 50, jitter: 0, keepMs: 60_000, leaseMs: 25_000 }
    const leading = one.getOrSet(
      'k',
      () => {
        begun.resolve()
        return gate.promise
      },
      options,
    )
    await begun.promise
    const ended: string[] = []
    const waits = Promise.withResolvers<void>()
    two.on('wait.started', () => waits.resolve())
    two.on('wait.ended', ({ by }) => ended.push(by))
    const waiting = two.getOrSet('k', () => 'ran twice', options)
    await waits.promise
    gate.resolve('made')
    expect(await Promise.all([leading, waiting])).toEqual(['made', 'made'])
    expect(ended).toEqual(['wake-up'])
    let asked = 0
    const ask = () =>
      two.getOrSet(
        'k',
        ({ previous, notModified }) => {
          asked += 1
          return previous === undefined ? 'made anew' : notModified()
        },
        options,
      )
    await expect.poll(async () => [await ask(), asked > 0]).toEqual(['made', true])
  })

  it('can wait for a lock, and is handed it', async () => {
    const [one, two] = [0, 1].map(() => createLocks({ store: openStore(), leaseMs: 20_000 }))
    if (one === undefined || two === undefined) throw new Error('two were opened')
    closing.push(() => one.close(), () => two.close())
    const first = await one.acquire('door')
    const second = two.acquire('door', { waitMs: 15_000 })
    const queued = async () => (await admin.hget('stampede:2:{=l:door}', 'tail')) === '1'
    await expect.poll(queued).toBe(true)
    expect(await first.release()).toBe('released')
    const lease = await second
    expect(lease.fence).toBeGreaterThan(first.fence)
    expect(await lease.renew()).toBe(true)
    expect(await lease.release()).toBe('released')
    const third = await one.acquire('door')
    await expect(two.acquire('door', { waitMs: 100 })).rejects.toMatchObject({
      code: 'ERR_LOCK_WAIT_TIMEOUT',
    })
    await third.release()
  })

  it('can use an idempotency key to its end, and be its operator', async () => {
    const stampede = open()
    let charges = 0
    const pay = (isLast: boolean) =>
      stampede.idempotent('invoice:7', async ({ attempt, step }) => {
        const charge = await step('charge', () => ++charges)
        if (!isLast) throw new Error('and then the printer failed')
        return { attempt, charge }
      })
    await expect(pay(false)).rejects.toThrow('printer')
    expect(await pay(true)).toEqual({ attempt: 2, charge: 1 })
    expect(await open().idempotent('invoice:7', () => 'ran twice')).toEqual({ attempt: 2, charge: 1 })
    const { idempotency } = stampede
    expect(await idempotency.inspect('invoice:7')).toMatchObject({
      state: 'completed',
      steps: ['charge'],
    })
    expect(await idempotency.release('invoice:7', { force: true })).toBe('settled')
    expect(await idempotency.resolve('invoice:7', { value: 'by hand' })).toBe('settled')
    expect(await open().idempotent('invoice:7', () => 'ran again')).toBe('by hand')
  })
})
