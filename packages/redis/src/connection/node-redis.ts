// Opens the connections of one store by node-redis 5.

import type { Connections } from './connection.ts'
import type { NodeRedisClient, NodeRedisPlainClient } from './node-redis-client.ts'
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
  return { commands: connection(), subscriber: connection(), serverOf: () => '' }
}

function timesOf(budgetMs: number) {
  return { connectMs: Math.max(2 * budgetMs, 1_000), replyMs: Math.max(4 * budgetMs, 1_000) }
}

/** Replaces every option that is not about the address, TLS, credentials or the database. */
function clientOptions({ socket }: { readonly socket?: object }, budgetMs: number) {
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
  }
}
