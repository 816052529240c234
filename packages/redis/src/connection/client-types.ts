// The clients that the user passes, and the connections that this package opens by ioredis, as
// structural types. They fit versions 5 and 6, with a single Redis, Sentinels or Cluster.

/**
 * A client of ioredis 5.4 or newer, or of node-redis 5 or newer. Stampede uses only its address and
 * credentials. For Sentinels with node-redis: the options of `createSentinel`.
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

/** A client of `createClient` of node-redis 5 or 6. */
export interface NodeRedisClient {
  readonly options?: object | undefined
  readonly isReady: boolean
  withTypeMapping(...args: never[]): unknown
}

/** A client of `createCluster` of node-redis 5 or 6. */
export interface NodeRedisClusterClient {
  readonly slots: readonly unknown[]
  nodeClient(...args: never[]): unknown
  withTypeMapping(...args: never[]): unknown
}

export interface Address {
  readonly host: string
  readonly port: number
}

/** The name of a server. */
export function textOf({ host, port }: Partial<Address>): string {
  return `${host}:${port}`
}

/** The options of `createSentinel` of node-redis 5 or 6. */
export interface NodeRedisSentinel {
  readonly name: string
  readonly sentinelRootNodes: readonly Address[]
  readonly nodeClientOptions?: object
  readonly sentinelClientOptions?: object
  readonly nodeAddressMap?:
    | Readonly<Record<string, Address>>
    | ((address: string) => Address | undefined)
  readonly keyPrefix?: string | Buffer
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
interface Corkable {
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
  readonly stream?: Corkable | undefined
  duplicate(options: object): Connection
  callBuffer(command: string, ...args: Array<string | number | Buffer>): Promise<unknown>
}

/** The connection for commands to a cluster. */
export interface ClusterConnection extends Connection {
  nodes(role: 'master'): ClusterNode[]
  /** For each slot: the name of its master, then those of its replicas. */
  readonly slots: ReadonlyArray<readonly string[] | undefined>
}

export interface Connections {
  readonly commands: Connection
  readonly subscriber: SubscriberConnection
  /** Only of a cluster: name of the server that has this key. Empty while it is unknown. */
  serverOf?(key: string): string
}
