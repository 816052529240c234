// The parts of ioredis that are used, structurally: versions 5 and 6, Redis with or without Sentinels, and Cluster all fit.

/** An ioredis `Redis` or `Cluster`, version 5.4 or newer. Only its address and credentials are used. */
export interface RedisClient {
  readonly isCluster: boolean
  readonly options?: object
  duplicate(...args: never[]): unknown
}

/** The connection that only listens. */
export interface SubscriberConnection {
  readonly status: string
  subscribe(...channels: string[]): Promise<unknown>
  ping(): Promise<unknown>
  on(event: string, listener: (...args: never[]) => void): unknown
  disconnect(reconnect?: boolean): void
}

/** A socket that holds back what is written to it. */
export interface Writes {
  cork(): void
  uncork(): void
}

/** A connection of our own; in a cluster, one to each node that is used. */
export interface Connection extends SubscriberConnection {
  /** None before it is connected, nor of a cluster. */
  readonly stream?: Writes | undefined
  callBuffer(command: string, ...args: Array<string | number | Buffer>): Promise<unknown>
}

/** One node of a cluster, as an ioredis `Cluster` knows it. */
export interface ClusterNode {
  readonly options: { readonly host?: string; readonly port?: number }
  duplicate(options: object): Connection
}

export interface ClusterConnection extends Connection {
  nodes(role: 'all' | 'master'): ClusterNode[]
  /** For each slot its master, and then its replicas. */
  readonly slots: ReadonlyArray<readonly string[] | undefined>
}

export interface Connections {
  readonly commands: Connection
  readonly subscriber: SubscriberConnection
  /** Names the server that has this key, as far as is known; one name for all where there is one server. */
  serverOf(key: string): string
}
