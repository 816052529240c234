// A compared cache, the settings that scenarios vary, and the options that are the same for all.

/** Resolves when the cache is connected and subscribed, as far as it can tell. */
export type Open = (settings: Settings) => Instance | Promise<Instance>

/** The settings that scenarios vary. The rest of a set-up is the same for all. */
export interface Settings {
  readonly redisUrl: string
  readonly ttlMs: number
  /** How long a value may be served after its TTL during a refresh. 0: not at all. */
  readonly staleMs: number
  /** Tags of every key, in the scenario with tags. */
  readonly tags: readonly string[]
  /**
   * `guarded`: all options of the cache or its client against a slow Redis. `plain`: default
   * options of the client.
   */
  readonly client: 'guarded' | 'plain'
  /** The origin. */
  readonly load: (key: string) => Promise<string>
}

/** The cache of one process: memory, Redis and bus, as far as the cache has them. */
export interface Instance {
  readonly get: (key: string) => Promise<unknown>
  readonly invalidate: (key: string) => Promise<unknown>
  readonly invalidateTag?: (tag: string) => Promise<unknown>
}

/** The timeout for loads and for Redis commands, if the cache has such options. */
export const DEADLINE_MS = 1_000
export const COMMAND_MS = 500

/** Adds a listener for connection errors, as every client's documentation requires. */
export function listened<T>(client: T): T {
  const emitter = client as { on(event: 'error', listener: () => void): unknown }
  emitter.on('error', () => {})
  return client
}
