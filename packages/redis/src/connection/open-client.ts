// Opens the connections of one store, with options for short timeouts and endless reconnection.

import { retryDelayMs } from './budget.ts'
import type { ClusterConnection, Connection, Connections, IoredisClient } from './client-types.ts'
import { ClusterSubscriber, slotOf } from './cluster.ts'
import { isReadOnly, type ReplyError } from './refusal.ts'
import { askAllSentinels } from './sentinels.ts'

/**
 * Opens connections with the address and credentials of `redis`, and none of its other options. By
 * default, ioredis queues commands without a limit while it is disconnected. It retries each
 * command 20 times and sets no deadline. A request cannot wait that long.
 */
export function connect(redis: IoredisClient, budgetMs: number): Connections {
  if (!redis.isCluster) {
    const open = () => openServer(redis, budgetMs)
    return { commands: open(), subscriber: open() }
  }
  const options = nodeOptions(budgetMs)
  const duplicate = redis.duplicate.bind(redis) as (...args: unknown[]) => unknown
  // If `duplicate` gets other `redisOptions`, ioredis 5 drops these: user, password and TLS.
  const { redisOptions } = (redis.options ?? {}) as { readonly redisOptions?: object }
  const node = { ...redisOptions, ...options }
  const commands = duplicate([], clusterOptions(node, budgetMs)) as ClusterConnection
  return {
    commands,
    subscriber: new ClusterSubscriber(commands, options),
    serverOf: (key) => commands.slots[slotOf(key)]?.[0] ?? '',
  }
}

type IoredisConnection = Connection & { connect?(): Promise<unknown> }

/** Connects to the server itself, or to the master that its Sentinels name. */
function openServer(redis: IoredisClient, budgetMs: number): Connection {
  const duplicate = redis.duplicate.bind(redis) as (options: object) => unknown
  const connection = reconnecting(duplicate({ ...nodeOptions(budgetMs), lazyConnect: true }))
  askAllSentinels(connection, budgetMs)
  connection.connect?.().catch(() => {})
  return connection
}

/**
 * Makes a connection reconnect after `end` too. ioredis gives up and emits `end` if a fail-over is
 * reported while it connects.
 */
function reconnecting(duplicated: unknown): IoredisConnection {
  const connection = duplicated as IoredisConnection
  const disconnect = connection.disconnect.bind(connection)
  let isClosed = false
  let isDisconnecting = false
  let attempt = 0
  connection.disconnect = (reconnect = false) => {
    if (!reconnect) isClosed = true
    // ioredis calls this method for each command that a replica refuses. Without the check, each
    // call would add a listener and a timer.
    if (reconnect && isDisconnecting) return
    isDisconnecting = true
    disconnect(reconnect)
  }
  const onDisconnected = () => {
    isDisconnecting = false
  }
  connection.on('error', ({ command }: ReplyError) => {
    // If SELECT is refused, ioredis goes on in database 0, where the keys are of others.
    if (command?.name === 'select') connection.disconnect(true)
  })
  // ioredis 5 also calls `disconnect` between two attempts. The next attempt has a new socket.
  for (const event of ['connect', 'close']) connection.on(event, onDisconnected)
  connection.on('ready', () => {
    onDisconnected()
    attempt = 0
  })
  connection.on('end', () => {
    onDisconnected()
    attempt += 1
    setTimeout(() => {
      if (!isClosed) connection.connect?.().catch(() => {})
    }, retryDelayMs(attempt)).unref()
  })
  return connection
}

function nodeOptions(budgetMs: number) {
  const connectTimeout = Math.max(2 * budgetMs, 1_000)
  return {
    // The names of keys and channels already begin with the user's `keyPrefix`.
    keyPrefix: '',
    lazyConnect: false,
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    autoResubscribe: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    enableReadyCheck: true,
    stringNumbers: false,
    monitor: false,
    // With READONLY, replicas would reply to reads. But the same scripts also write, and only a
    // master takes writes.
    readOnly: false,
    replyMapping: 'legacy',
    // This timeout runs only while a reply is pending. It closes the connection to a frozen server.
    // ioredis then connects again until the server responds.
    socketTimeout: Math.max(4 * budgetMs, 1_000),
    connectTimeout,
    keepAlive: 5_000,
    // ioredis waits for this time for the end of a socket, which may be closed already. A process
    // would live on meanwhile.
    disconnectTimeout: 100,
    retryStrategy: (attempt: number): number | null => retryDelayMs(attempt),
    // READONLY after a fail-over means that the connection is to the old master.
    reconnectOnError: (error: Error) => (isReadOnly(error) ? 1 : false),
    // The following options have no effect without Sentinels.
    role: 'master',
    // Disconnects when the Sentinels report a fail-over. An old master that is still running
    // accepts writes for some seconds, and then loses them.
    failoverDetector: true,
    // Without this timeout, ioredis waits for a frozen Sentinel without end.
    sentinelCommandTimeout: connectTimeout,
    // Without this strategy, ioredis gives up once no Sentinel replies.
    sentinelRetryStrategy: (attempt: number) => retryDelayMs(attempt),
  }
}

function clusterOptions(node: ReturnType<typeof nodeOptions>, budgetMs: number) {
  const { enableOfflineQueue, ...redisOptions } = node
  return {
    keyPrefix: '',
    lazyConnect: false,
    enableAutoPipelining: false,
    enableReadyCheck: true,
    shardedSubscribers: false,
    // With this queue, commands wait while ioredis connects to their node. Without it, ioredis
    // would send the second command for that node to another node, after a delay. The queue stays
    // short, because `send` rejects at once while the whole cluster is unavailable.
    enableOfflineQueue: true,
    clusterRetryStrategy: (attempt: number) => retryDelayMs(attempt),
    clusterNodeRetryStrategy: null,
    // These delays are short, because a command must arrive within its time budget even while its
    // slot migrates.
    retryDelayOnMoved: 0,
    retryDelayOnFailover: RETRY_MS,
    retryDelayOnClusterDown: RETRY_MS,
    retryDelayOnTryAgain: RETRY_MS,
    // ioredis asks one node after another for the slots. By default, a silent one would use up the
    // whole first second, for which operations wait.
    slotsRefreshTimeout: Math.max(budgetMs, 750),
    // Without the refresh, ioredis notices that a node left only when the node refuses a command.
    // The subscriber sends no such commands.
    slotsRefreshInterval: REFRESH_MS,
    // A replica may not have received the latest purge yet.
    scaleReads: 'master',
    redisOptions,
  }
}

const RETRY_MS = 50
const REFRESH_MS = 10_000
