// The parts of ioredis that this package uses, as structural types. They fit ioredis 5 and 6, with
// a single Redis, Sentinels or Cluster. The connections of node-redis have the same members.

import type {
  NodeRedisClient,
  NodeRedisClusterClient,
  NodeRedisSentinel,
} from './node-redis-client.ts'

/**
 * A client of ioredis 5.4 or newer, or of node-redis 5 or newer. Stampede uses only its address and
 * credentials. For Sentinels with node-redis: `createClient`, and the options of `createSentinel`.
 */
export type RedisClient =
  | IoredisClient
  | NodeRedisClient
  | NodeRedisClusterClient
  | NodeRedisSentinel

/** An ioredis `Redis` or `Cluster`, version 5.4 or newer. */
export interface IoredisClient {
  readonly isCluster: boolean
  readonly options?: object
  duplicate(...args: never[]): unknown
}

/** The connection that only subscribes. */
export interface SubscriberConnection {
  readonly status: string
  subscribe(...channels: string[]): Promise<unknown>
  ping(): Promise<unknown>
  on(event: string, listener: (...args: never[]) => void): unknown
  disconnect(reconnect?: boolean): void
}

/** The socket of a connection. While it is corked, it buffers all writes. */
export interface Corkable {
  cork(): void
  uncork(): void
}

/** A connection that this package opened. In a cluster, it has one socket per node in use. */
export interface Connection extends SubscriberConnection {
  /** Undefined before the connection is open, and in a cluster. */
  readonly stream?: Corkable | undefined
  callBuffer(command: string, ...args: Array<string | number | Buffer>): Promise<unknown>
}

/** One node of a cluster, as an ioredis `Cluster` knows it. */
export interface ClusterNode {
  readonly options: { readonly host?: string; readonly port?: number }
  duplicate(options: object): Connection
  callBuffer(command: string, ...args: Array<string | number | Buffer>): Promise<unknown>
}

export interface ClusterConnection extends Connection {
  nodes(role: 'all' | 'master'): ClusterNode[]
  /** For each slot: the name of its master, then those of its replicas. */
  readonly slots: ReadonlyArray<readonly string[] | undefined>
}

export interface Connections {
  readonly commands: Connection
  readonly subscriber: SubscriberConnection
  /** Only of a cluster: name of the server that has this key. Empty while it is unknown. */
  serverOf?(key: string): string
}
