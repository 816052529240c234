// Translates the options of a node-redis client into options of ioredis, which opens all
// connections. What ioredis cannot do is refused by name.

import { createRequire } from 'node:module'
import { StampedeError } from '@stampede/core'
import { optionError } from '@stampede/core/store'
import type { Address, IoredisClient, NodeRedisSentinel } from '../connection/client-types.ts'

type AddressMap = NodeRedisSentinel['nodeAddressMap']
type Socket = Partial<Address> & Readonly<Record<string, unknown>>

/** The options of `createClient` that Stampede uses or refuses. It ignores all others. */
export interface ClientOptions {
  readonly url?: string
  readonly socket?: Socket
  readonly username?: string
  readonly password?: string
  readonly credentialsProvider?: { readonly type?: string }
  readonly database?: number
  readonly name?: string
  readonly keyPrefix?: string | Buffer
  readonly disableClientInfo?: boolean
  readonly clientInfoTag?: string
}

/** The options of `createCluster`. */
export interface ClusterOptions {
  readonly rootNodes: readonly ClientOptions[]
  readonly defaults?: ClientOptions
  readonly nodeAddressMap?: AddressMap
  readonly keyPrefix?: string | Buffer
}

/** Members of `socket` that change how to connect. ioredis passes them on only with TLS. */
const ONLY_WITH_TLS = [
  'lookup',
  'hints',
  'localAddress',
  'localPort',
  'autoSelectFamily',
  'autoSelectFamilyAttemptTimeout',
  'blockList',
]

/** Members of `socket` that ioredis cannot set for one node of a Cluster. */
const FOR_ALL_NODES = [...ONLY_WITH_TLS, 'path', 'family', 'ca', 'cert', 'key', 'servername']

/** `options` are those of the client: node-redis has already read the URL. */
export function fromClient(options: ClientOptions = {}): IoredisClient {
  const { socket: { host, port, path } = {}, database: db, keyPrefix } = options
  return server({ ...connectionOptions(options), host, port, path, db, keyPrefix })
}

export function fromSentinel(redis: NodeRedisSentinel): IoredisClient {
  const { name, sentinelRootNodes, nodeAddressMap, keyPrefix } = redis
  const forNodes: ClientOptions = redis.nodeClientOptions ?? {}
  const forSentinels: ClientOptions = redis.sentinelClientOptions ?? {}
  const node = connectionOptions(forNodes, 'nodeClientOptions.', ['path', 'family'])
  const sentinel = connectionOptions(forSentinels, 'sentinelClientOptions.', ['path'])
  return server({
    ...node,
    // ioredis uses it for Sentinels that it discovers. The one of the nodes is also in `tls`.
    family: sentinel.family,
    db: forNodes.database,
    keyPrefix,
    name,
    natMap: natMapOf(nodeAddressMap),
    enableTLSForSentinelMode: node.tls !== undefined,
    sentinels: sentinelRootNodes.map((each) => ({ ...each, family: sentinel.family })),
    sentinelUsername: sentinel.username,
    sentinelPassword: sentinel.password,
    sentinelTLS: sentinel.tls,
  })
}

export function fromCluster(redis: ClusterOptions): IoredisClient {
  const { rootNodes, defaults = {}, nodeAddressMap, keyPrefix } = redis
  const redisOptions = connectionOptions(defaults, 'defaults.', ['path'])
  if (defaults.database) {
    throw refused('defaults.database', defaults.database, 'a Cluster has only database 0')
  }
  const nodes = rootNodes.map((node) => seedOf(node, defaults))
  const options = {
    keyPrefix,
    natMap: natMapOf(nodeAddressMap),
    // With TLS, a certificate is for the name of the node and not for its IP address.
    dnsLookup: (name: string, found: (error: null, address: string) => void) => found(null, name),
    redisOptions,
  }
  return {
    isCluster: true,
    options,
    duplicate: (_: unknown, overrides: object) =>
      new (ioredis().Cluster)(nodes, { ...options, ...overrides }),
  }
}

function server(options: object): IoredisClient {
  return {
    isCluster: false,
    options,
    duplicate: (overrides: object) => new (ioredis().Redis)({ ...options, ...overrides }),
  }
}

/** ioredis before 5.5 takes no function. */
function natMapOf(map: AddressMap): object | undefined {
  if (typeof map !== 'function') return map
  return new Proxy({}, { get: (_, address) => map(String(address)) })
}

/** As in node-redis, the URL comes before the other options. */
function seedOf({ url, socket = {}, password }: ClientOptions, defaults: ClientOptions): Address {
  const forAll: Socket = defaults.socket ?? {}
  const own = { ...forAll, ...socket }
  const parsed = url === undefined ? undefined : parse(url)
  const secret = parsed?.password || password || ''
  if (secret !== '' && secret !== defaults.password) {
    throw refused('rootNodes.password', '(hidden)', 'pass it in defaults, for every node')
  }
  const isTls = parsed === undefined ? own.tls === true : parsed.protocol === 'rediss:'
  if (isTls && forAll.tls !== true) {
    throw refused('rootNodes.socket.tls', true, 'pass it in defaults, for every node')
  }
  const other = FOR_ALL_NODES.find((name) => own[name] !== forAll[name])
  if (other !== undefined) {
    const fix = other === 'path' ? 'pass host and port' : 'pass it in defaults, for every node'
    // The value may be a private key.
    throw refused(`rootNodes.socket.${other}`, '(hidden)', fix)
  }
  const { hostname = '', port = '' } = parsed ?? {}
  const host = hostname.replace(/^\[(.*)\]$/, '$1') || own.host || '127.0.0.1'
  return { host, port: Number(port || own.port || 6379) }
}

/** Node's error contains the URL with its password, so it is not the `cause`. */
function parse(url: string): Pick<URL, 'hostname' | 'port' | 'protocol' | 'password'> {
  try {
    const { hostname, port, protocol, password } = new URL(url)
    return { hostname, port, protocol, password: decodeURIComponent(password) }
  } catch {
    throw refused('rootNodes.url', '(hidden)', 'pass a valid URL: redis://host:6379')
  }
}

/** `part`: the member of the user's options that applies to several servers. */
function connectionOptions(options: ClientOptions, part = '', without: readonly string[] = []) {
  const { username, password, credentialsProvider: provider, socket = {} } = options
  if (part !== '' && options.url !== undefined) {
    throw refused(
      `${part}url`,
      '(hidden)',
      'pass username, password and socket.tls in place of url',
    )
  }
  // createClient itself makes a provider of a username or a password, which is no stream.
  const isStream = provider?.type === 'streaming-credentials-provider'
  const isMade = part === '' && (username || password) && !isStream
  if (provider !== undefined && !isMade) {
    const fix = 'pass username and password, because ioredis calls no provider'
    throw refused(`${part}credentialsProvider`, provider, fix)
  }
  const tls = tlsOptions(socket)
  const unknown = [...ONLY_WITH_TLS, ...without].find((name) => socket[name] !== undefined)
  if (tls === undefined && unknown !== undefined) {
    const fix = 'pass a client without it, because ioredis has no such option without TLS'
    throw refused(`${part}socket.${unknown}`, socket[unknown], fix)
  }
  return {
    family: socket.family ?? 0,
    tls,
    username,
    // For a user without a password. Without a username, nothing is sent.
    password: password ?? (username === undefined ? undefined : ''),
    connectionName: options.name,
    disableClientInfo: options.disableClientInfo,
    clientInfoTag: options.clientInfoTag,
  }
}

/** The options of `tls.connect`. Undefined without TLS. As in node-redis, two are left out. */
function tlsOptions({ host, port, tls, timeout, onread, ...options }: Socket) {
  return tls === true ? options : undefined
}

function refused(option: string, received: unknown, fix: string): StampedeError {
  return optionError(`redisStore: redis.${option}`, received, fix)
}

interface Ioredis {
  readonly Redis: new (options: object) => unknown
  readonly Cluster: new (nodes: readonly Address[], options: object) => unknown
}

/** Loaded only for a client of node-redis. A client of ioredis brings its own copy. */
function ioredis(): Ioredis {
  try {
    return createRequire(import.meta.url)('ioredis')
  } catch (cause) {
    throw new StampedeError(
      'ERR_STAMPEDE_OPTION',
      'redisStore: redis: received a node-redis client, whose connections ioredis opens, but ' +
        'ioredis cannot be loaded; run npm install ioredis, and keep both ioredis and ' +
        '@stampede/redis out of a bundle',
      { cause },
    )
  }
}
