// Opens the connections of one store: their options, and what keeps them alive.

import { slotOf } from './cluster-slot.ts'
import { ClusterSubscriber } from './cluster-subscriber.ts'
import type { ClusterConnection, Connection, Connections, RedisClient } from './connection.ts'
import { retryDelayMs } from './retry-delay.ts'

/**
 * Connections with the same address and credentials, and none of the user's other settings. ioredis by
 * default queues commands without a limit while disconnected, retries each 20 times, and gives none a
 * deadline: fine for a script, fatal in front of a request.
 */
export function connect(redis: RedisClient, budgetMs: number): Connections {
  const options = nodeOptions(budgetMs)
  const duplicate = redis.duplicate.bind(redis) as (...args: unknown[]) => unknown
  if (!redis.isCluster) {
    const open = () => lasting(duplicate({ ...options, ...masterBySentinel(budgetMs) }))
    return { commands: open(), subscriber: open(), serverOf: () => '' }
  }
  // ioredis 5 leaves them out of a duplicate that is given others: user, password, TLS.
  const { redisOptions } = (redis.options ?? {}) as { readonly redisOptions?: object }
  const node = { ...redisOptions, ...options }
  const commands = duplicate([], clusterOptions(node)) as ClusterConnection
  return {
    commands,
    subscriber: new ClusterSubscriber(commands, options),
    serverOf: (key) => commands.slots[slotOf(key)]?.[0] ?? '',
  }
}

/** Told of a fail-over just while it connects, ioredis gives up, and says `end`. Then it is asked to connect again. */
function lasting(duplicated: unknown): Connection {
  const connection = duplicated as Connection & { connect?(): Promise<unknown> }
  const disconnect = connection.disconnect.bind(connection)
  let isClosed = false
  let isLeaving = false
  let attempt = 0
  connection.disconnect = (reconnect = false) => {
    if (!reconnect) isClosed = true
    // ioredis asks for it with each command that a replica refuses, and each adds a listener and a timer.
    if (reconnect && isLeaving) return
    isLeaving = true
    disconnect(reconnect)
  }
  const left = () => {
    isLeaving = false
  }
  connection.on('close', left)
  connection.on('ready', () => {
    left()
    attempt = 0
  })
  connection.on('end', () => {
    left()
    attempt += 1
    setTimeout(() => {
      if (!isClosed) connection.connect?.().catch(() => {})
    }, retryDelayMs(attempt)).unref()
  })
  return connection
}

/** Redis 6.2 reports an error of a command in a script as `ERR Error running script: -READONLY ...`. */
function isReadOnly({ message }: Error): boolean {
  return message.startsWith('READONLY') || message.includes('-READONLY ')
}

function nodeOptions(budgetMs: number) {
  return {
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
    // What is read is also written.
    readOnly: false,
    replyMapping: 'legacy',
    // Counts only while a reply is owed: a frozen server is left, and found again when it thaws.
    socketTimeout: Math.max(4 * budgetMs, 1_000),
    connectTimeout: Math.max(2 * budgetMs, 1_000),
    keepAlive: 5_000,
    retryStrategy: (attempt: number): number | null => retryDelayMs(attempt),
    // After a fail-over the old master answers READONLY: the connection is to the wrong server.
    reconnectOnError: (error: Error) => (isReadOnly(error) ? 1 : false),
  }
}

/** Without effect where there are no Sentinels. */
function masterBySentinel(budgetMs: number) {
  return {
    role: 'master',
    // It hears of a fail-over from the Sentinels. An old master that lives goes on as one for some seconds, and then loses all that it was told: to be left at once.
    failoverDetector: true,
    // Without it a Sentinel that is frozen is waited for without end,
    sentinelCommandTimeout: Math.max(2 * budgetMs, 1_000),
    // and without this nobody would look for them again once none of them answered.
    sentinelRetryStrategy: (attempt: number) => retryDelayMs(attempt),
  }
}

function clusterOptions(node: ReturnType<typeof nodeOptions>) {
  const { enableOfflineQueue, ...redisOptions } = node
  return {
    keyPrefix: '',
    lazyConnect: false,
    enableAutoPipelining: false,
    enableReadyCheck: true,
    shardedSubscribers: false,
    // Only for a node that is being connected to: else the second command to it would be sent to another node, after
    // a delay. While the whole cluster is away we send nothing.
    enableOfflineQueue: true,
    clusterRetryStrategy: (attempt: number) => retryDelayMs(attempt),
    clusterNodeRetryStrategy: null,
    // Short beside the budget, in which a command whose slot is on its way has to arrive.
    retryDelayOnMoved: 0,
    retryDelayOnFailover: RETRY_MS,
    retryDelayOnClusterDown: RETRY_MS,
    retryDelayOnTryAgain: RETRY_MS,
    // Else a node that left is noticed only by a command that it refuses, and what only listens sends none.
    slotsRefreshInterval: REFRESH_MS,
    // A replica may not know yet what was purged.
    scaleReads: 'master',
    redisOptions,
  }
}

const RETRY_MS = 50
const REFRESH_MS = 10_000
