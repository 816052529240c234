// Opens the connections of one store by node-redis 5: to a server, to a cluster, or to the master
// that Sentinels name.

import { ClusterSubscriber, slotOf } from '../connection/cluster.ts'
import {
  type Address,
  type Connections,
  type NodeRedisClient,
  type NodeRedisClusterClient,
  type NodeRedisSentinel,
  textOf,
} from '../connection/connection.ts'
import { NodeRedisCluster } from './cluster.ts'
import {
  type NodeRedisAttempt,
  NodeRedisConnection,
  type NodeRedisNode,
  type NodeRedisOptions,
  type NodeRedisPlainClient,
} from './connection.ts'
import { Sentinels } from './sentinels.ts'

export function connectNodeRedis(redis: NodeRedisClient, budgetMs: number): Connections {
  const duplicate = redis.duplicate.bind(redis) as (options: object) => NodeRedisPlainClient
  const options = clientOptions(redis.options ?? {}, budgetMs)
  const open = () => {
    // node-redis changes the options of a client, so each client gets its own.
    const client = duplicate({ ...options, socket: { ...options.socket } })
    return { client, connecting: client.connect() }
  }
  const connection = () => new NodeRedisConnection({ open, ...timesOf(budgetMs), reconnects: true })
  return { commands: connection(), subscriber: connection() }
}

/** The public members of a cluster client have no options, so this reads `_options`. */
interface WithOptions {
  readonly _options: {
    readonly rootNodes: readonly NodeRedisOptions[]
    readonly defaults?: NodeRedisOptions
  }
}

export function connectNodeRedisCluster(
  redis: NodeRedisClusterClient,
  budgetMs: number,
): Connections {
  const { rootNodes, defaults = {} } = (redis as unknown as WithOptions)._options
  const duplicate = redis.duplicate.bind(redis) as (options: object) => NodeRedisClusterClient
  // One duplicate for all nodes, because node-redis builds the class of the clients for each.
  const cluster = duplicate({
    defaults: { ...defaults, ...clientOptions(defaults, budgetMs) },
    RESP: 2,
    clientSideCache: undefined,
    keyPrefix: undefined,
  })
  const open = (host: string, port: number) =>
    new NodeRedisConnection({
      open: () => openNode(cluster, host, port),
      ...timesOf(budgetMs),
      reconnects: false,
    })
  const seeds = rootNodes.map((node) => nameOf(node, defaults))
  const commands = new NodeRedisCluster({ open, seeds, connectMs: timesOf(budgetMs).connectMs })
  return {
    commands,
    subscriber: new ClusterSubscriber(commands, {}),
    serverOf: (key) => commands.slots[slotOf(key)]?.[0] ?? '',
  }
}

/** No method of a cluster client only creates the client of a node. `nodeClient` connects it. */
function openNode(cluster: NodeRedisClusterClient, host: string, port: number): NodeRedisAttempt {
  const node: NodeRedisNode = { address: `${host}:${port}`, host, port, readonly: false }
  const nodeClient = cluster.nodeClient.bind(cluster) as (node: NodeRedisNode) => Promise<unknown>
  const connecting = nodeClient(node)
  return { client: node.client as NodeRedisPlainClient, connecting }
}

/** As in node-redis, the URL comes before the other options. */
function nameOf({ url, socket }: NodeRedisOptions, defaults: NodeRedisOptions): string {
  const { hostname = '', port = '' } = url === undefined ? {} : new URL(url)
  const { host = '127.0.0.1', port: ownPort = 6379 } = { ...defaults.socket, ...socket }
  return `${hostname.replace(/^\[(.*)\]$/, '$1') || host}:${port || ownPort}`
}

function timesOf(budgetMs: number): {
  readonly connectMs: number
  readonly replyMs: number
} {
  return { connectMs: Math.max(2 * budgetMs, 1_000), replyMs: Math.max(4 * budgetMs, 1_000) }
}

/** Replaces every option that is not about the address, TLS, credentials or the database. */
function clientOptions(
  { socket }: { readonly socket?: object },
  budgetMs: number,
): { readonly socket: object; readonly [name: string]: unknown } {
  return {
    // `socket` already has the address of the URL.
    url: undefined,
    socket: {
      ...socket,
      connectTimeout: timesOf(budgetMs).connectMs,
      // This timeout would also close idle connections.
      socketTimeout: undefined,
      reconnectStrategy: false,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 5_000,
    },
    // Replies to the same command differ between RESP2 and RESP3.
    RESP: 2,
    commandOptions: undefined,
    disableOfflineQueue: true,
    commandsQueueMaxLength: undefined,
    pingInterval: undefined,
    // A replica may not have received the latest purge yet.
    readonly: false,
    clientSideCache: undefined,
    emitInvalidate: false,
    maintNotifications: 'disabled',
    // The names of keys and channels already begin with the user's `keyPrefix`.
    keyPrefix: undefined,
  }
}

export function connectNodeRedisSentinel(redis: NodeRedisSentinel, budgetMs: number): Connections {
  const { name, sentinelRootNodes, nodeClientOptions, sentinelClientOptions } = redis
  const times = timesOf(budgetMs)
  const create = redis.createClient as (options: object) => NodeRedisClient
  // All clients are copies of one, because createClient builds a class, which takes long.
  const base = create({ RESP: 2 })
  const duplicate = base.duplicate.bind(base) as (options: object) => NodeRedisPlainClient
  const openerOf = (given: object = {}, overrides: object = {}) => {
    const options = { ...given, ...clientOptions(given, budgetMs), ...overrides }
    return (address: Address): NodeRedisAttempt => {
      const client = duplicate({ ...options, socket: { ...options.socket, ...address } })
      return { client, connecting: client.connect() }
    }
  }
  const openMaster = openerOf(nodeClientOptions)
  // With RESP2, a connection that subscribes could not ask for the master.
  const openSentinel = openerOf(sentinelClientOptions, { RESP: 3 })
  const connections: Array<{ connection: NodeRedisConnection; isAt(master: Address): boolean }> = []
  const sentinels = new Sentinels({
    name,
    nodes: sentinelRootNodes,
    askMs: times.connectMs / 2,
    open: (node) =>
      new NodeRedisConnection({ open: () => openSentinel(node), ...times, reconnects: true }),
    onMoved: (master) => {
      for (const each of connections) if (!each.isAt(master)) each.connection.disconnect(true)
    },
  })
  const connect = () => {
    /** The master of the connection. Empty while the Sentinels are asked. */
    let at = ''
    const connection = new NodeRedisConnection({
      locate: () => {
        at = ''
        return sentinels.find()
      },
      open: (master = { host: '', port: 0 }) => {
        at = textOf(master)
        return openMaster(mapped(master, redis.nodeAddressMap))
      },
      verify: requireMaster,
      ...times,
      reconnects: true,
    })
    connection.on('end', () => {
      if (connections.every((each) => each.connection.status === 'end')) sentinels.close()
    })
    connections.push({ connection, isAt: (master) => at === '' || at === textOf(master) })
    return connection
  }
  return { commands: connect(), subscriber: connect() }
}

/** After a fail-over, Sentinels that have not heard of it still name the former master. */
async function requireMaster(client: NodeRedisPlainClient): Promise<void> {
  const info = await client.sendCommand(['INFO', 'replication'], {}).catch((error: Error) => {
    if (error.message.startsWith('NOPERM')) return 'role:master'
    throw error
  })
  if (!String(info).includes('role:master')) {
    throw new Error('the server that the Sentinels named is not a master')
  }
}

/** The address at which this process reaches the server, as in node-redis. */
function mapped(address: Address, map: NodeRedisSentinel['nodeAddressMap']): Address {
  const found = typeof map === 'function' ? map(textOf(address)) : map?.[textOf(address)]
  return found ?? address
}
