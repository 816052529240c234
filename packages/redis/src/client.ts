// What is needed of ioredis, structurally, so that versions 5 and 6, Redis and Cluster all fit.

/** An ioredis `Redis` or `Cluster`, version 5.4 or newer. Only its address and credentials are used. */
export interface RedisClient {
  readonly isCluster: boolean
  duplicate(...args: never[]): unknown
}

/** A connection of our own. */
export interface Connection {
  readonly status: string
  callBuffer(command: string, ...args: Array<string | number | Buffer>): Promise<unknown>
  subscribe(...channels: string[]): Promise<unknown>
  ping(): Promise<unknown>
  on(event: string, listener: (...args: never[]) => void): unknown
  off(event: string, listener: (...args: never[]) => void): unknown
  disconnect(reconnect?: boolean): void
}

/**
 * A connection with the same address and credentials, and none of the user's other settings. ioredis by
 * default queues commands without a limit while disconnected, retries each 20 times, and gives none a
 * deadline: fine for a script, fatal in front of a request.
 */
export function connect(redis: RedisClient, budgetMs: number): Connection {
  const node = {
    keyPrefix: '',
    lazyConnect: false,
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    autoResubscribe: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    enableReadyCheck: true,
    stringNumbers: false,
    // Ours comes first, and knows a blocked event loop from a silent server.
    commandTimeout: 4 * budgetMs,
    // Counts only while a reply is owed: a frozen server is left, and found again when it thaws.
    socketTimeout: Math.max(4 * budgetMs, 1_000),
    connectTimeout: Math.max(2 * budgetMs, 1_000),
    keepAlive: 5_000,
    retryStrategy: (attempt: number) => retryDelayMs(attempt),
    // After a fail-over the old master answers READONLY: the connection is to the wrong server.
    reconnectOnError: (error: Error) => (error.message.startsWith('READONLY') ? 1 : false),
  }
  const duplicate = redis.duplicate.bind(redis) as (...args: unknown[]) => Connection
  if (!redis.isCluster) return duplicate(node)
  const { keyPrefix, lazyConnect, enableOfflineQueue, ...redisOptions } = node
  return duplicate(undefined, {
    keyPrefix,
    lazyConnect,
    enableOfflineQueue,
    clusterRetryStrategy: (attempt: number) => retryDelayMs(attempt),
    // A replica may not know yet what was purged.
    scaleReads: 'master',
    redisOptions,
  })
}

/** Exponential to one second, with jitter: a fleet must not come back in one moment. */
function retryDelayMs(attempt: number): number {
  return Math.min(50 * 2 ** Math.min(attempt, 10), 1_000) * (0.5 + Math.random() / 2)
}
