// Description of a response cache before it runs, and the servers that it makes.
import type { RequestListener } from 'node:http'
import type { Readable } from 'node:stream'

export interface Peer {
  readonly id: string
  /** The head of its column. */
  readonly name: string
  /** npm packages whose versions the table gives, the peer's own first. */
  readonly packages: readonly string[]
  readonly framework: string
  /** The set-up that its documentation describes, with the options that were used. */
  readonly setUp: string
  /** Cases that its set-up does not cover, by case id, with the reason. They are not tested. */
  readonly notSupported?: Readonly<Record<string, string>>
  /** Called in a process of its own. */
  readonly load: () => Promise<{ readonly open: (settings: Settings) => Promise<Opened> }>
}

/** The parts of a request that a handler sees. */
export interface Asked {
  readonly method: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** 1 for the first run of the handler. */
  readonly run: number
}

/** The response of a handler. Each peer sends it as is usual in its framework. */
export interface Reply {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string | Buffer | Readable | object
}

export type Handler = (asked: Asked) => Reply | Promise<Reply>

export interface Settings {
  readonly redisUrl: string
  readonly ttlMs: number
  readonly reply: (asked: Omit<Asked, 'run'>) => Promise<Reply>
}

/** One server with a cache, as one process of a fleet would have it. */
export interface Opened {
  readonly listener: RequestListener
  /** Removes the page of this path. */
  readonly purge: (path: string) => Promise<unknown>
}
