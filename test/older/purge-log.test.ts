// How two processes learn of each other's purges on a real Redis: over lost connections, lost
// messages, a trimmed log and a lost history. The server is also frozen, full, or refuses commands.

import type { StampedeStore } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { appendPurge } from '../../packages/redis/src/protocol/scripts.generated.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'
import { startProxy, type TcpProxy } from '../harness/tcp-proxy.ts'

type StoreHooks = Parameters<StampedeStore['attach']>[0]

type Mark = Parameters<StoreHooks['onMark']>[0]

const HEARTBEAT_MS = 2_000
const LOOKUP = { token: 't', leaseMs: 0 }

let server: RedisServer
let admin: Redis
let proxy: TcpProxy
let tests = 0
let prefix: string

beforeAll(async () => {
  server = await startRedis()
  admin = new Redis(server.url)
  proxy = await startProxy(server.port)
})
afterAll(async () => {
  admin.disconnect()
  await proxy.stop()
  await server.stop()
})
beforeEach(() => {
  tests += 1
  prefix = `log${tests}`
})

const nameOf = (part: 'meta' | 'log' | 'marks') => `${prefix}:4:{purges}:${part}`

interface Process {
  readonly store: StampedeStore
  /** Purges that the process learned of, since `begin`. */
  readonly heard: string[]
  readonly marks: Mark[]
  readonly counts: { forgets: number; gaps: number; floor: number }
  /** Makes this process believe that this much time passed. */
  skip(ms: number): void
}

/** Starts one process, and resolves when it knows all purges. */
async function start(url = server.url, user: object = {}): Promise<Process> {
  const client = new Redis(url, { lazyConnect: true, ...user })
  client.on('error', () => {})
  const store = redisStore(client, { prefix, commandTimeoutMs: 3_000 })
  const heard: string[] = []
  const marks: Mark[] = []
  const counts = { forgets: 0, gaps: 0, floor: 0 }
  let skipped = 0
  store.attach({
    clock: {
      now: () => performance.now() + skipped,
      wallNow: () => Date.now(),
      setTimer: () => ({ cancel: () => {} }),
    },
    onWake: () => {},
    onPurge: (key, { soft }) => void heard.push(`${key} ${soft ? 'soft' : 'hard'}`),
    onMark: (mark) => {
      heard.push(`${mark.subject} ${mark.soft ? 'soft' : 'hard'}`)
      marks.push(mark)
    },
    onGap: () => {
      counts.gaps += 1
    },
    onForget: (floor) => {
      counts.forgets += 1
      counts.floor = floor
    },
    onLost: () => {},
    onError: () => {},
  })
  onTestFinished(() => store.close())
  await store.lookup('first', LOOKUP)
  heard.length = 0
  marks.length = 0
  Object.assign(counts, { forgets: 0, gaps: 0 })
  return { store, heard, marks, counts, skip: (ms) => (skipped += ms) }
}

const soon = (list: () => unknown, timeout = 20_000) => expect.poll(list, { interval: 5, timeout })
const hard = { soft: false }
const soft = { soft: true }

describe('a process that follows the purge log', () => {
  it('learns of exactly the purges that it missed without a connection, in order, and keeps its copies', async () => {
    const a = await start()
    const b = await start(proxy.url)
    await a.store.mark('t=0', hard)
    await soon(() => b.heard).toEqual(['t=0 hard'])
    await proxy.refuse()
    proxy.drop()
    await a.store.mark('t=1', hard)
    await a.store.purge('k', soft)
    await a.store.mark('t=1', soft)
    await a.store.purge('other', hard)
    expect(b.heard).toEqual(['t=0 hard'])
    await proxy.accept()
    const missed = ['t=1 hard', 'k soft', 't=1 soft', 'other hard']
    await soon(() => b.heard).toEqual(['t=0 hard', ...missed])
    await soon(() => b.counts.gaps).toBe(1)
    await a.store.mark('t=2', hard)
    await soon(() => b.heard).toEqual(['t=0 hard', ...missed, 't=2 hard'])
    expect(b.counts.forgets).toBe(0)
    expect(a.heard).toEqual(b.heard)
    expect(a.store.position).toBe(b.store.position)
    for (const { position, agoMs } of b.marks.slice(1, 3)) {
      expect(agoMs).toBeGreaterThanOrEqual(0)
      expect(agoMs).toBeLessThan(10_000)
      expect(position).toBeLessThanOrEqual(b.store.position)
    }
  })

  it.each(['meta', 'log', 'marks'] as const)(
    'continues when the Redis key %s of the purge log is lost',
    async (part) => {
      const a = await start()
      const b = await start()
      await a.store.mark('t=1', hard)
      await soon(() => b.heard).toEqual(['t=1 hard'])
      const { position } = a.store
      await admin.del(nameOf(part))
      await a.store.mark('t=2', hard)
      await soon(() => b.heard).toEqual(['t=1 hard', 't=2 hard'])
      expect(a.store.position).toBeGreaterThan(position)
      // Without `meta`, the server knows no earlier purges.
      await soon(() => [a, b].map(({ counts }) => counts.forgets)).toEqual(
        part === 'meta' ? [1, 1] : [0, 0],
      )
      if (part === 'meta') expect(b.counts.floor).toBeGreaterThan(position)
      const c = await start()
      if (part !== 'log') expect(c.counts.floor).toBeGreaterThanOrEqual(position)
      await b.store.mark('t=3', soft)
      for (const { heard } of [a, c]) await soon(() => heard.at(-1)).toBe('t=3 soft')
    },
  )

  it('catches up over a slow connection in pages, each within the budget of a command', async () => {
    const a = await start()
    const b = await start(proxy.url)
    await proxy.refuse()
    proxy.drop()
    const names = Array.from({ length: 300 }, (_, n) => `${n}${'x'.repeat(8_000)}`)
    for (const name of names) await a.store.purge(name, hard)
    // 2.4 MB take 2.4 s, and the budget is one second.
    proxy.throttle(1_000)
    try {
      await proxy.accept()
      await soon(() => b.heard.length, 20_000).toBe(names.length)
    } finally {
      proxy.throttle(0)
    }
    expect(b.heard).toEqual(names.map((name) => `${name} hard`))
    expect(b.counts.forgets).toBe(0)
  })

  it('keeps fewer purges in the log if their names are long', async () => {
    const a = await start()
    for (let n = 0; n < 400; n++) await a.store.purge(`${'x'.repeat(100_000)}${n}`, hard)
    expect(await admin.xlen(nameOf('log'))).toBeLessThan(200)
    expect(Number(await admin.memory('USAGE', nameOf('log')))).toBeLessThan(20 * 1024 * 1024)
  })

  it('notices by itself that the purge log was lost', async () => {
    const a = await start()
    await a.store.mark('t=1', hard)
    await admin.flushall()
    await soon(() => a.counts.forgets, HEARTBEAT_MS + 20_000).toBe(1)
    expect(a.counts.floor).toBeGreaterThan(a.marks[0]?.position ?? 0)
    await a.store.lookup('k', LOOKUP)
  })

  it('notices a purge whose notification was lost, although its connections are open', async () => {
    const a = await start()
    const names = (['meta', 'log', 'marks'] as const).map(nameOf)
    const args = ['0-0', 'another channel', 10_000, 100_000, 1, 'mht=lost']
    await admin.eval(appendPurge.source, 3, ...names, ...args)
    await soon(() => a.heard, HEARTBEAT_MS + 2_000).toEqual(['t=lost hard'])
    expect(a.counts.forgets).toBe(0)
    const askedFor = a.store.confirmedAt
    await soon(() => a.store.confirmedAt > askedFor, HEARTBEAT_MS + 20_000).toBe(true)
    expect(a.counts.forgets).toBe(0)
  })

  it('confirms the purges before a lookup if they were not confirmed for some seconds', async () => {
    const a = await start()
    await admin.config('RESETSTAT')
    await a.store.lookup('k', LOOKUP)
    const scripts = async () => {
      const { eval: sent = 0, evalsha = 0 } = await server.commandStats()
      return sent + evalsha
    }
    expect(await scripts()).toBe(1)
    a.skip(5_001)
    const before = a.store.confirmedAt
    await Promise.all([a.store.lookup('k', LOOKUP), a.store.lookup('l', LOOKUP)])
    expect(await scripts()).toBe(4)
    expect(a.store.confirmedAt).toBeGreaterThan(before)
  })
})

describe('a lookup whose reply took long', () => {
  it('learns of the purges made meanwhile', async () => {
    const a = await start()
    const names = (['meta', 'log', 'marks'] as const).map(nameOf)
    const args = ['0-0', 'another channel', 10_000, 100_000, 1, 'mht=lost']
    const answer = a.store.lookup('k', LOOKUP)
    // The process was frozen, or its event loop blocked, after it confirmed the purges.
    a.skip(5_001)
    void admin.eval(appendPurge.source, 3, ...names, ...args)
    await answer
    const { confirmedAt } = a.store
    await a.store.lookup('k', LOOKUP)
    expect(a.store.confirmedAt).toBe(confirmedAt)
    expect(confirmedAt).toBeGreaterThan(performance.now())
  })
})

describe('a lookup whose reply and confirmation took long', () => {
  it('is rejected, because its entry may have been purged', async () => {
    const a = await start(proxy.url)
    await soon(() => a.store.confirmedAt > 0).toBe(true)
    proxy.delay(400)
    try {
      const answer = a.store.lookup('k', LOOKUP)
      const frozen = [400, 1_200].map((ms) => setTimeout(() => a.skip(6_000), ms))
      const failure = { code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' }
      await expect(answer).rejects.toMatchObject(failure)
      for (const each of frozen) clearTimeout(each)
    } finally {
      proxy.delay(0)
    }
    const certain = () =>
      a.store.lookup('k', LOOKUP).then(
        () => true,
        () => false,
      )
    await soon(certain).toBe(true)
  })
})

describe('a read-only Redis', () => {
  it.each<[string, () => Promise<unknown>, () => Promise<unknown>]>([
    [
      'as a replica of an unavailable master',
      () => admin.replicaof('127.0.0.1', 1),
      () => admin.replicaof('NO', 'ONE'),
    ],
    [
      'as a master without the replicas that it needs to write',
      () => admin.config('SET', 'min-replicas-to-write', '1'),
      () => admin.config('SET', 'min-replicas-to-write', '0'),
    ],
  ])('confirms no purges %s, and is not read after five seconds', async (_, begin, end) => {
    const a = await start()
    const grantOf = async () => {
      const reply = await a.store.lookup('k', { token: 't', leaseMs: 5_000 })
      return 'grant' in reply ? reply.grant : undefined
    }
    const grant = await grantOf()
    if (grant === undefined) throw new Error('no lease')
    const times = { freshMs: 60_000, staleWhileRevalidateMs: 0, staleIfErrorMs: 0, keepMs: 0 }
    await a.store.commit(grant, Buffer.from('old'), { ...times, physicalMs: 60_000 })
    expect((await a.store.lookup('k', LOOKUP)).status).toBe('fresh')
    await begin()
    try {
      const { confirmedAt } = a.store
      await new Promise((resolve) => setTimeout(resolve, HEARTBEAT_MS + 500))
      expect(a.store.confirmedAt).toBe(confirmedAt)
      a.skip(5_001)
      const failure = { code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' }
      await expect(a.store.lookup('k', LOOKUP)).rejects.toMatchObject(failure)
    } finally {
      await end()
    }
    const status = () => a.store.lookup('k', LOOKUP).then((reply) => reply.status, String)
    await soon(status, 8_000).toBe('fresh')
    expect(a.counts.forgets).toBe(0)
  })
})

describe('a process without lookups', () => {
  it('knows the clock of the server from its heartbeat', async () => {
    const a = await start()
    await admin.config('RESETSTAT')
    const times = async () => (await server.commandStats()).time ?? 0
    await soon(times, HEARTBEAT_MS + 20_000).toBeGreaterThan(0)
    expect(a.counts.forgets).toBe(0)
  })
})

describe('purges on a Redis that refuses commands', () => {
  const user = async (name: string, ...rules: string[]) => {
    await admin.call('ACL', 'SETUSER', name, 'reset', 'on', '>pw', '~*', '&*', '+@all', ...rules)
    return start(server.url, { username: name, password: 'pw' })
  }

  it.each(['xadd', 'zadd', 'eval'])(
    'reject when Redis refuses to store them (%s)',
    async (command) => {
      const a = await start()
      const b = await user(`no-${command}`)
      await admin.call('ACL', 'SETUSER', `no-${command}`, `-${command}`)
      const failure = { code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' }
      await expect(b.store.mark('t=1', hard)).rejects.toMatchObject(failure)
      await a.store.mark('t=2', hard)
      await soon(() => b.heard.at(-1)).toBe('t=2 hard')
    },
  )

  it('reject when Redis refuses PUBLISH, but are in the log for other processes', async () => {
    const a = await start()
    const b = await user('mute', '-publish')
    await expect(b.store.mark('t=1', hard)).rejects.toThrow(/PUBLISH is refused/)
    await expect(b.store.purge('k', hard)).rejects.toThrow(/PUBLISH is refused/)
    expect(b.heard).toEqual(['t=1 hard', 'k hard'])
    await soon(() => a.heard, HEARTBEAT_MS + 2_000).toEqual(['t=1 hard', 'k hard'])
    expect(a.counts.forgets).toBe(0)
  })

  it('reach a process without a subscription by its heartbeat', async () => {
    const a = await start()
    const b = await user('deaf', '-subscribe')
    await a.store.mark('t=1', hard)
    await a.store.purge('k', hard)
    await soon(() => b.heard, HEARTBEAT_MS + 2_000).toEqual(['t=1 hard', 'k hard'])
    expect(b.counts.forgets).toBe(0)
  })
})

describe('planted data in Redis', () => {
  it.each(['meta', 'log', 'marks'] as const)(
    'counts as a lost purge log in place of %s',
    async (part) => {
      const a = await start()
      const b = await start()
      await a.store.mark('t=1', hard)
      for (const value of ['x', '', '9'.repeat(400)]) {
        await admin.set(nameOf(part), value)
        a.skip(5_001)
        await a.store.lookup('k', LOOKUP)
        await a.store.mark('t=2', hard)
        await b.store.purge('k', hard)
        await soon(() => a.heard.at(-1)).toBe('k hard')
      }
      expect(Number.isSafeInteger(a.store.position)).toBe(true)
    },
  )

  it.each([
    ['random text', 'x'],
    ['an empty message', ''],
    ['half of a purge', '12-1'],
    ['a purge without a subject', '1795278251743960-7 12-6 mh'],
    ['a purge with a position in the far future', '8999999999999999-7 12-6 mht=1'],
    ['half of an extension', 'x a 1 2 3'],
    ['a huge extension', `x a 1 2 ${'9 '.repeat(5)}9 1\nk`],
    ['bytes that are no text', Buffer.from([0xff, 0xfe, 0x00, 0x78])],
  ])('changes nothing as a message on the purge channel: %s', async (_, message) => {
    const a = await start()
    const b = await start()
    await admin.publish(`${prefix}:4:log`, message as string)
    await b.store.mark('t=1', hard)
    await soon(() => a.heard).toEqual(['t=1 hard'])
    expect(a.store.position).toBe(b.store.position)
    expect(a.counts.forgets).toBe(0)
  })

  it('makes earlier entries outdated if it cannot be parsed, in the log or among the marks', async () => {
    const a = await start()
    await a.store.mark('t=1', hard)
    await admin.zadd(nameOf('marks'), a.store.position - 1, 'nonsense')
    await admin.hincrby(nameOf('meta'), 'marks', 1)
    const b = await start()
    expect(b.counts.floor).toBe(a.store.position - 1)
    await b.store.mark('t=2', hard)
    await soon(() => a.heard).toEqual(['t=1 hard', 't=2 hard'])
  })
})
