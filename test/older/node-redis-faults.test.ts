// The store on node-redis 5: connections that freeze, break and return, and options of the user's
// client.

import { type AddressInfo, connect } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { StampedeStore } from '@stampede/core'
import { systemClock } from '@stampede/core/store'
import { redisStore } from '@stampede/redis'
import { eventually } from '@stampede/testkit'
import { createClient, type RedisClientOptions } from 'redis'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { LIFETIMES } from '../harness/bare-store.ts'
import { AUTHORITY, SERVER } from '../harness/certificates.ts'
import { freePort } from '../harness/free-port.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

type StoreHooks = Parameters<StampedeStore['attach']>[0]

const BUDGET_MS = 1_000
const { server, admin } = await redisOfFile()

let tokens = 0

function open(options: RedisClientOptions = {}, hooks: Partial<StoreHooks> = {}): StampedeStore {
  const client = createClient({ url: server.url, ...options } as RedisClientOptions)
  const store = redisStore(client, { prefix: 't', commandTimeoutMs: BUDGET_MS })
  const ignore = () => {}
  store.attach({
    clock: systemClock,
    ...{ onWake: ignore, onPurge: ignore, onMark: ignore, onGap: ignore },
    ...{ onForget: ignore, onLost: ignore, onError: ignore },
    ...hooks,
  })
  onTestFinished(() => store.close())
  return store
}

beforeEach(() => admin.flushall())

const lookUp = (store: StampedeStore, key: string) => {
  tokens += 1
  return store.lookup(key, { token: `t${tokens}`, leaseMs: 5_000 })
}

async function write(store: StampedeStore, key: string, frame: Buffer): Promise<void> {
  const reply = await lookUp(store, key)
  if (!('grant' in reply) || reply.grant === undefined) throw new Error(reply.status)
  expect(await store.commit(reply.grant, frame, LIFETIMES)).toBe('committed')
}

const read = async (store: StampedeStore, key: string) => {
  const reply = await lookUp(store, key)
  return 'stored' in reply ? reply.stored?.frame : reply.status
}

/** Every byte, and not valid UTF-8. */
const BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))

/** IDs of the stores' connections. */
async function connections(): Promise<string[]> {
  const own = String(await admin.client('ID'))
  const all = String(await admin.client('LIST')).matchAll(/^id=(\d+) /gm)
  return [...all].map(([, id]) => String(id)).filter((id) => id !== own)
}

describe('the options of a node-redis client', () => {
  it.each<[string, RedisClientOptions]>([
    ['none', {}],
    ['RESP 3', { RESP: 3 }],
    ['a cache of its own', { RESP: 3, clientSideCache: { ttl: 0, maxEntries: 10 } }],
    ['a type mapping', { commandOptions: { typeMapping: { 36: String, 58: String } } }],
    ['a short queue', { commandsQueueMaxLength: 1 }],
    ['another database', { database: 3 }],
    ['a name', { name: 'shop' }],
    ['a ping interval', { pingInterval: 10 }],
    ['readonly', { readonly: true }],
    ['no reconnection', { socket: { reconnectStrategy: false, socketTimeout: 20 } }],
  ])('change nothing: %s', async (_, options) => {
    const [one, two] = [open(options), open(options)]
    await write(one, 'k', BYTES)
    const all = await Promise.all(Array.from({ length: 50 }, () => read(two, 'k')))
    for (const frame of all) expect(frame).toEqual(BYTES)
    await new Promise((resolve) => setTimeout(resolve, 60))
    expect(await read(two, 'k')).toEqual(BYTES)
  })

  it('carry the database, the user and the password of the URL', async () => {
    await admin.call('ACL', 'SETUSER', 'shop', 'reset', 'on', '>secret', '~*', '&*', '+@all')
    const url = `redis://shop:secret@${server.host}:${server.port}/5`
    const store = open({ url })
    await write(store, 'k', BYTES)
    expect(await admin.dbsize()).toBe(0)
    expect(String(await admin.client('LIST'))).toMatch(/ db=5 .*user=shop /)
  })

  it('carry TLS with its certificate authority', async () => {
    const proxy = createTlsServer(SERVER, (socket) => {
      const target = connect(server.port, server.host)
      for (const each of [socket, target]) each.on('error', () => {})
      socket.pipe(target).pipe(socket)
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    try {
      const url = `rediss://127.0.0.1:${(proxy.address() as AddressInfo).port}`
      await write(open({ url, socket: { tls: true, ca: AUTHORITY } }), 'k', BYTES)
      await expect(lookUp(open({ url }), 'k')).rejects.toThrow(/certificate/)
    } finally {
      proxy.close()
    }
  })
})

describe('a store on node-redis', () => {
  it('opens two connections, and sends one TIME for all plain reads of a turn', async () => {
    const store = open()
    await write(store, 'k', BYTES)
    for (let i = 0; i < 20; i++) await read(store, 'k')
    expect(await connections()).toHaveLength(2)
    const trace = await server.traceCommands()
    await Promise.all(Array.from({ length: 20 }, () => read(store, 'k')))
    const names = (await trace.stop()).map(({ name }) => name)
    expect(names.filter((name) => name === 'hmget').length).toBeGreaterThanOrEqual(20)
    expect(names.filter((name) => name === 'time').length).toBeLessThanOrEqual(2)
  })

  it('sends its scripts again after SCRIPT FLUSH', async () => {
    const store = open()
    await write(store, 'a', BYTES)
    await admin.script('FLUSH')
    await write(store, 'b', BYTES)
    expect(await read(store, 'b')).toEqual(BYTES)
  })

  it('names the reason if no server listens', async () => {
    const port = await freePort()
    const store = open({ url: `redis://127.0.0.1:${port}` })
    await expect(lookUp(store, 'k')).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_STORE_UNAVAILABLE',
      message: expect.stringContaining(`connect ECONNREFUSED 127.0.0.1:${port}`),
    })
  })

  it('names a refused password', async () => {
    const url = `redis://nobody:wrong@${server.host}:${server.port}`
    await expect(lookUp(open({ url }), 'k')).rejects.toThrow(/not connected: WRONGPASS/)
  })

  it('reports the refusal of a command, and does not count it as an outage', async () => {
    await admin.call(
      'ACL',
      'SETUSER',
      'few',
      'reset',
      'on',
      '>secret',
      '~*',
      '&*',
      '+@all',
      '-eval',
    )
    const url = `redis://few:secret@${server.host}:${server.port}`
    const store = open({ url })
    for (let i = 0; i < 5; i++) await expect(lookUp(store, 'k')).rejects.toThrow(/NOPERM/)
  })

  it('connects again after its connections were killed, and gets messages again', async () => {
    const purged: string[] = []
    const [one, two] = [open(), open({}, { onPurge: (key) => void purged.push(key) })]
    await write(one, 'k', BYTES)
    await read(two, 'k')
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await eventually(async () => expect(await read(two, 'k')).toEqual(BYTES))
    await eventually(() => one.purge('k', { soft: false }))
    await eventually(async () => expect(purged).toContain('k'))
    await eventually(async () => expect(await connections()).toHaveLength(4))
  })

  it('keeps its time budget while the server is frozen, and leaves no connection behind', async () => {
    const store = open()
    await write(store, 'k', BYTES)
    await server.pause()
    try {
      const late = Array.from({ length: 20 }, (_, i) => lookUp(store, `k${i}`))
      const settled = await Promise.allSettled(late)
      expect(settled.every(({ status }) => status === 'rejected')).toBe(true)
      await expect(lookUp(store, 'k')).rejects.toThrow('earlier commands failed')
      // Long enough for several attempts to connect, which the kernel accepts.
      await new Promise((resolve) => setTimeout(resolve, 4_000))
    } finally {
      await server.resume()
    }
    await eventually(async () => expect(await read(store, 'k')).toEqual(BYTES))
    await eventually(async () => expect(await connections()).toHaveLength(2))
  })

  it('connects again when its server replies that it is read-only', async () => {
    const store = open()
    await write(store, 'k', BYTES)
    const before = await connections()
    await admin.replicaof('127.0.0.1', '1')
    try {
      await expect(lookUp(store, 'other')).rejects.toThrow(/READONLY/)
      await eventually(async () =>
        expect((await connections()).some((id) => !before.includes(id))).toBe(true),
      )
    } finally {
      await admin.replicaof('NO', 'ONE')
    }
    await eventually(() => write(store, 'other', BYTES))
  })

  it('closes its connections, also one that was not open yet', async () => {
    const store = open()
    await write(store, 'k', BYTES)
    const never = open()
    await Promise.all([store.close(), never.close()])
    await eventually(async () => expect(await connections()).toHaveLength(0))
  })
})
