// The means of a case: sites with the cache of a peer, and a Redis that it can freeze.
import type { Got } from '../lib/http.ts'
import type { Asked, Reply } from './peers.ts'

/** `run` is 1 for the first run of the handler. */
export type Handler = (asked: Asked & { readonly run: number }) => Reply | Promise<Reply>

export interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly timeoutMs?: number
}

export interface Site {
  readonly get: (sent?: Sent) => Promise<Got>
  readonly purge: () => Promise<unknown>
}

export interface Stage {
  readonly freezeRedis: () => void
  /** Runs of the handler, in all sites. */
  readonly runs: () => number
  /** A server with the cache of the peer, as in a process of its own. */
  readonly open: (handler: Handler, ttlMs?: number) => Promise<Site>
}
