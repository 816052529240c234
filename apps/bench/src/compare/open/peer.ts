// A cache in the scenarios: the handlers of one route of Express 5.
import type { RequestHandler } from 'express'

export interface OpenSettings {
  readonly redisUrl: string
  readonly ttlMs: number
  readonly staleMs: number
  /** The origin: returns JSON for a key. */
  readonly load: (key: string) => Promise<string>
}

export interface OpenPeer {
  readonly id: string
  readonly name: string
  readonly packages: readonly string[]
  readonly workspace?: string
  readonly open: (settings: OpenSettings) => Promise<RequestHandler[]>
}

/** A handler that gets JSON from a cache and sends it unchanged. */
export const sending =
  (get: (key: string) => Promise<unknown>): RequestHandler =>
  async (req, res) => {
    res.type('json').send(await get(String(req.params.key)))
  }
