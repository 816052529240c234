// The parts of node-redis 5 that this package uses, as structural types.

/** A client of `createClient` of node-redis 5. */
export interface NodeRedisClient {
  readonly options?: object | undefined
  readonly isReady: boolean
  duplicate(...args: never[]): unknown
  withTypeMapping(...args: never[]): unknown
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
