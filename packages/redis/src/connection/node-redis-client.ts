// The parts of node-redis 5 that this package uses, as structural types.

/** A client of `createClient` of node-redis 5. */
export interface NodeRedisClient {
  readonly options?: object | undefined
  readonly isReady: boolean
  duplicate(...args: never[]): unknown
  withTypeMapping(...args: never[]): unknown
}

/** A client of `createCluster` of node-redis 5. */
export interface NodeRedisClusterClient {
  readonly slots: readonly unknown[]
  duplicate(...args: never[]): unknown
  nodeClient(...args: never[]): unknown
  withTypeMapping(...args: never[]): unknown
}

export interface Address {
  readonly host: string
  readonly port: number
}

/** The options of `createSentinel` of node-redis 5, and the function that creates a client. */
export interface NodeRedisSentinel {
  createClient(...args: never[]): unknown
  readonly name: string
  readonly sentinelRootNodes: readonly Address[]
  readonly nodeClientOptions?: object
  readonly sentinelClientOptions?: object
  readonly nodeAddressMap?:
    | Readonly<Record<string, Address>>
    | ((address: string) => Address | undefined)
}

/** The options of a client that have its address. */
export interface NodeRedisOptions {
  readonly url?: string
  readonly socket?: { readonly host?: string; readonly port?: number }
}

/** A node of a cluster, as node-redis describes it. */
export interface NodeRedisNode extends Address {
  readonly address: string
  readonly readonly: boolean
  client?: NodeRedisPlainClient
}

/** A client that this package opened. */
export interface NodeRedisPlainClient {
  connect(): Promise<unknown>
  sendCommand(args: ReadonlyArray<string | Buffer>, options: object): Promise<unknown>
  subscribe(
    channels: readonly string[],
    listener: (message: Buffer, channel: Buffer) => void,
    asBuffers: true,
  ): Promise<unknown>
  on(event: string, listener: (...args: never[]) => void): unknown
  /** Throws if the client is closed. */
  destroy(): void
}

export interface NodeRedisAttempt {
  readonly client: NodeRedisPlainClient
  readonly connecting: Promise<unknown>
}
