import { StampedeError } from '@stampede/core'
import type * as ioredis from 'ioredis'
import { createClient, createCluster } from 'redis'
import { describe, expect, it } from 'vitest'
import type { RedisClient } from '../connection/client-types.ts'
import { requireClient } from '../connection/known-clients.ts'
import { redisStore } from '../stores/redis-store.ts'

type ClientOptions = NonNullable<Parameters<typeof createClient>[0]>
type ClusterOptions = Omit<Parameters<typeof createCluster>[0], 'rootNodes'>

const ca = 'a certificate'
const lookup = () => {}
const NODES = [{ host: 's1', port: 26_379 }]
const mapped = { host: 'outside', port: 1 }
const address = () => mapped

/** The options without those that are undefined. */
function translated(client: unknown): object {
  const defined = (options: object): object =>
    Object.fromEntries(
      Object.entries(options)
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => [name, name === 'redisOptions' ? defined(value) : value]),
    )
  return defined(requireClient(client).options ?? {})
}

describe('the options of createClient become those of ioredis', () => {
  it.each<[string, ClientOptions, object]>([
    ['no options', {}, {}],
    [
      'a URL',
      { url: 'redis://us%40er:pa%3Ass@redis-1:7000/5' },
      { host: 'redis-1', port: 7000, db: 5, username: 'us@er', password: 'pa:ss' },
    ],
    ['a URL with a password', { url: 'redis://:secret@h' }, { host: 'h', password: 'secret' }],
    ['a URL with IPv6', { url: 'redis://[::1]:7000' }, { host: '::1', port: 7000 }],
    [
      'a URL with TLS',
      { url: 'rediss://redis-1', socket: { tls: true, ca, servername: 'shop' } },
      { host: 'redis-1', tls: { ca, servername: 'shop' } },
    ],
    [
      'TLS with a lookup',
      { socket: { tls: true, host: 'h', lookup, connectTimeout: 1 } },
      { host: 'h', tls: { lookup, connectTimeout: 1 } },
    ],
    ['no TLS', { socket: { tls: false, host: 'h' } }, { host: 'h' }],
    ['a Unix socket', { socket: { tls: false, path: '/run/redis' } }, { path: '/run/redis' }],
    ['a family', { socket: { host: 'h', family: 6 } }, { host: 'h', family: 6 }],
    ['a user without a password', { username: 'shop' }, { username: 'shop', password: '' }],
    ['a database', { database: 3 }, { db: 3 }],
    [
      'names',
      { name: 'shop', disableClientInfo: true, clientInfoTag: 'tag' },
      { connectionName: 'shop', disableClientInfo: true, clientInfoTag: 'tag' },
    ],
    [
      'options without an effect on the store',
      {
        RESP: 3,
        pingInterval: 10,
        readonly: true,
        socket: { reconnectStrategy: false, noDelay: false },
      },
      {},
    ],
  ])('%s', (_, options, wanted) => {
    expect(translated(createClient(options))).toEqual({ family: 0, ...wanted })
  })

  it('the keyPrefix of node-redis 6, before its own prefix', () => {
    expect(translated(createClient({ keyPrefix: 'shop:' } as object))).toEqual({
      family: 0,
      keyPrefix: 'shop:',
    })
  })
})

describe('the options of createCluster become those of ioredis', () => {
  const rootNodes = [{ url: 'redis://[::1]:7000' }, { socket: { host: 'b' } }, {}]

  it.each<[string, ClusterOptions, object]>([
    ['no options', {}, { redisOptions: { family: 0 } }],
    [
      'defaults',
      {
        defaults: {
          username: 'shop',
          password: 'secret',
          socket: { tls: true, ca, family: 4 } as object,
        },
        nodeAddressMap: address,
      },
      {
        redisOptions: { username: 'shop', password: 'secret', family: 4, tls: { ca, family: 4 } },
        natMap: expect.any(Object),
      },
    ],
    [
      'addresses and a prefix',
      { nodeAddressMap: { 'a:1': mapped }, keyPrefix: 'shop:' } as object,
      { natMap: { 'a:1': mapped }, keyPrefix: 'shop:', redisOptions: { family: 0 } },
    ],
  ])('%s', (_, options, wanted) => {
    const cluster = createCluster({ rootNodes, ...options })
    expect(translated(cluster)).toEqual({ dnsLookup: expect.any(Function), ...wanted })
  })

  it('a nodeAddressMap that is a function', () => {
    const nodeAddressMap = (address: string) => (address === 'a:1' ? mapped : undefined)
    const { natMap } = translated(createCluster({ rootNodes, nodeAddressMap })) as {
      natMap: Record<string, unknown>
    }
    expect([natMap['a:1'], natMap['a:2']]).toEqual([mapped, undefined])
  })

  it('the addresses of all root nodes', () => {
    const defaults = { socket: { port: 7001 } }
    const cluster = requireClient(createCluster({ rootNodes, defaults }))
    const duplicate = cluster.duplicate as (nodes: unknown, options: object) => ioredis.Cluster
    const { startupNodes } = duplicate([], { lazyConnect: true }) as unknown as {
      startupNodes: unknown
    }
    expect(startupNodes).toEqual([
      { host: '::1', port: 7000 },
      { host: 'b', port: 7001 },
      { host: '127.0.0.1', port: 7001 },
    ])
  })
})

describe('the options of createSentinel become those of ioredis', () => {
  it.each<[string, object, object]>([
    ['no options', {}, { enableTLSForSentinelMode: false }],
    [
      'credentials, the database and mapped addresses',
      {
        nodeClientOptions: { username: 'shop', password: 'secret', database: 3 },
        sentinelClientOptions: { username: 'asker', password: 'other' },
        nodeAddressMap: address,
        keyPrefix: 'shop:',
      },
      {
        ...{ username: 'shop', password: 'secret', db: 3, keyPrefix: 'shop:' },
        ...{ sentinelUsername: 'asker', sentinelPassword: 'other', natMap: expect.any(Object) },
        enableTLSForSentinelMode: false,
      },
    ],
    [
      'TLS',
      {
        nodeClientOptions: { socket: { tls: true, ca } },
        sentinelClientOptions: { socket: { tls: true, servername: 's' } },
      },
      { tls: { ca }, enableTLSForSentinelMode: true, sentinelTLS: { servername: 's' } },
    ],
    [
      'TLS with a family of the nodes only',
      { nodeClientOptions: { socket: { tls: true, family: 6 } } },
      { tls: { family: 6 }, enableTLSForSentinelMode: true },
    ],
    ['pools', { masterPoolSize: 5, scanInterval: 10 }, { enableTLSForSentinelMode: false }],
  ])('%s', (_, options, wanted) => {
    const given = { createClient, name: 'shop', sentinelRootNodes: NODES, ...options }
    const sentinels = [{ ...NODES[0], family: 0 }]
    expect(translated(given)).toEqual({ name: 'shop', sentinels, family: 0, ...wanted })
  })
})

describe('redisStore refuses what ioredis cannot do', () => {
  const credentials = async () => ({ username: 'u', password: 'p' })
  const provider = { type: 'async-credentials-provider', credentials }
  const streaming = { type: 'streaming-credentials-provider', subscribe: credentials }
  const client = (options: object) => createClient(options)
  const cluster = (options: object) => createCluster({ rootNodes: [{}], ...options })
  const sentinel = (options: object) => ({ name: 'shop', sentinelRootNodes: NODES, ...options })
  const twice = cluster({
    rootNodes: [{ url: 'redis://:secret@h', password: 'p' }],
    defaults: { password: 'p' },
  })
  const socket = (members: object) => client({ socket: members })

  it.each<[option: string, client: unknown, fix: string]>([
    ['credentialsProvider', client({ credentialsProvider: provider }), 'username and password'],
    ['credentialsProvider', client({ username: 'u', credentialsProvider: streaming }), 'username'],
    [
      'defaults.credentialsProvider',
      cluster({ defaults: { username: 'u', password: 'p', credentialsProvider: provider } }),
      'username and password',
    ],
    [
      'nodeClientOptions.credentialsProvider',
      sentinel({ nodeClientOptions: { username: 'u', credentialsProvider: provider } }),
      'username and password',
    ],
    [
      'sentinelClientOptions.credentialsProvider',
      sentinel({ sentinelClientOptions: { username: 'u', credentialsProvider: provider } }),
      'username and password',
    ],
    ['socket.lookup', socket({ lookup }), 'without TLS'],
    ['socket.hints', socket({ hints: 1 }), 'without TLS'],
    ['socket.localAddress', socket({ localAddress: '10.0.0.1' }), 'without TLS'],
    ['socket.localPort', socket({ localPort: 1 }), 'without TLS'],
    ['socket.autoSelectFamily', socket({ autoSelectFamily: false }), 'without TLS'],
    ['defaults.url', cluster({ defaults: { url: 'redis://:secret@h' } }), 'in place of url'],
    ['defaults.database', cluster({ defaults: { database: 1 } }), 'only database 0'],
    ['defaults.socket.path', cluster({ defaults: { socket: { path: '/s' } } }), 'without TLS'],
    ['defaults.socket.lookup', cluster({ defaults: { socket: { lookup } } }), 'without TLS'],
    ['defaults.credentialsProvider', cluster({ defaults: { credentialsProvider: provider } }), 'p'],
    ['rootNodes.password', cluster({ rootNodes: [{ url: 'redis://:secret@h' }] }), 'in defaults'],
    ['rootNodes.password', cluster({ rootNodes: [{ password: 'secret' }] }), 'in defaults'],
    ['rootNodes.socket.tls', cluster({ rootNodes: [{ url: 'rediss://h' }] }), 'in defaults'],
    ['rootNodes.socket.tls', cluster({ rootNodes: [{ socket: { tls: true } }] }), 'in defaults'],
    ['rootNodes.password', twice, 'in defaults'],
    ['rootNodes.url', cluster({ rootNodes: [{ url: 'redis://:secret@h:port' }] }), 'a valid URL'],
    ['rootNodes.url', cluster({ rootNodes: [{ url: 'redis://:secret%ff@h' }] }), 'a valid URL'],
    ['rootNodes.socket.path', cluster({ rootNodes: [{ socket: { path: '/s' } }] }), 'host and'],
    ['rootNodes.socket.family', cluster({ rootNodes: [{ socket: { family: 6 } }] }), 'in defaults'],
    ['rootNodes.socket.lookup', cluster({ rootNodes: [{ socket: { lookup } }] }), 'in defaults'],
    [
      'rootNodes.socket.ca',
      cluster({ rootNodes: [{ socket: { tls: true, ca } }], defaults: { socket: { tls: true } } }),
      'in defaults',
    ],
    ['nodeClientOptions.url', sentinel({ nodeClientOptions: { url: 'secret' } }), 'in place of'],
    [
      'nodeClientOptions.socket.family',
      sentinel({ nodeClientOptions: { socket: { family: 6 } } }),
      'TLS',
    ],
    ['sentinelClientOptions.url', sentinel({ sentinelClientOptions: { url: 'secret' } }), 'place'],
    [
      'sentinelClientOptions.socket.localAddress',
      sentinel({ sentinelClientOptions: { socket: { localAddress: 'a' } } }),
      'without TLS',
    ],
  ])('%s', (option, given, fix) => {
    const store = () => redisStore(given as RedisClient)
    expect(store).toThrow(StampedeError)
    expect(store).toThrow(expect.objectContaining({ code: 'ERR_STAMPEDE_OPTION' }))
    expect(store).toThrow(`redisStore: redis.${option}: received `)
    expect(store).toThrow(fix)
    expect(store).not.toThrow('secret')
    expect(store).toThrow(expect.not.objectContaining({ cause: expect.anything() }))
  })
})
