// Description of a cache before it runs: name, packages, set-up, and scenarios that it cannot run.

export interface Peer {
  readonly id: string
  /** The head of its column. */
  readonly name: string
  /** npm packages whose versions the matrix gives, the peer's own first. */
  readonly packages: readonly string[]
  /** The folder with its own packages, if it has one. */
  readonly workspace?: string
  /** The set-up that its documentation describes, with the options that were used. */
  readonly setUp: string
  /**
   * Scenarios about features that it does not have, by scenario id, with the reason. They are not
   * tested.
   */
  readonly notSupported?: Readonly<Record<string, string>>
  readonly load: () => Promise<PeerModule>
}

export interface PeerModule {
  /** Resolves when the cache is connected and subscribed, as far as it can tell. */
  readonly open: (settings: Settings) => Promise<Instance>
}

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

/** Thrown when a scenario finds out that the cache lacks a feature. */
export class NotSupported extends Error {}
