// What is known of a peer before it runs: its name, what it is made of, how it was set up, and what it does not claim.

export interface Peer {
  readonly id: string
  /** The head of its column. */
  readonly name: string
  /** npm packages whose versions the matrix gives, the peer's own first. */
  readonly packages: readonly string[]
  /** The folder of the bench that they are installed in, if they have one of their own. */
  readonly workspace?: string
  /** How its documentation says to set it up, and which options of that were used. */
  readonly setUp: string
  /** What it has no notion of: not asked. Scenario id to reason. */
  readonly leaves?: Readonly<Record<string, string>>
  readonly load: () => Promise<PeerModule>
}

export interface PeerModule {
  /** Resolves when it is connected and subscribed as far as it can tell. */
  readonly open: (settings: Settings) => Promise<Instance>
}

/** One set-up for every scenario: only what a scenario must vary is here. */
export interface Settings {
  readonly redisUrl: string
  readonly ttlMs: number
  /** How long a value may be served past its ttl while it is refreshed; 0 for not at all. */
  readonly staleMs: number
  /** The tags of every key, in the scenario that is about tags. */
  readonly tags: readonly string[]
  /** `guarded`: every option against a slow Redis that the peer or its client has. `plain`: the client as it comes. */
  readonly client: 'guarded' | 'plain'
  /** The origin. */
  readonly load: (key: string) => Promise<string>
}

/** One process's cache: memory, Redis and bus, as far as the peer has them. */
export interface Instance {
  readonly get: (key: string) => Promise<unknown>
  readonly invalidate: (key: string) => Promise<unknown>
  readonly invalidateTag?: (tag: string) => Promise<unknown>
}

/** When an origin is given up, and a Redis command: where there is such an option. */
export const DEADLINE_MS = 1_000
export const COMMAND_MS = 500

/** What a peer cannot be asked, found while it ran. */
export class NotSupported extends Error {}
