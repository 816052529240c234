// Opens the connections of one store by node-redis 5.

import { slotOf } from './cluster-slot.ts'
import { ClusterSubscriber } from './cluster-subscriber.ts'
import type { Connections } from './connection.ts'
import type {
  NodeRedisAttempt,
  NodeRedisClient,
  NodeRedisClusterClient,
  NodeRedisNode,
  NodeRedisOptions,
  NodeRedisPlainClient,
} from './node-redis-client.ts'
import { NodeRedisCluster } from './node-redis-cluster.ts'
import { NodeRedisConnection } from './node-redis-connection.ts'

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

export function timesOf(budgetMs: number): {
  readonly connectMs: number
  readonly replyMs: number
} {
  return { connectMs: Math.max(2 * budgetMs, 1_000), replyMs: Math.max(4 * budgetMs, 1_000) }
}

/** Replaces every option that is not about the address, TLS, credentials or the database. */
export function clientOptions(
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
