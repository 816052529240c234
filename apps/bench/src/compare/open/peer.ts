// What goes through the scenarios: handlers of a route of Express 5.
import type { RequestHandler } from 'express'

export interface OpenSettings {
  readonly redisUrl: string
  readonly ttlMs: number
  readonly staleMs: number
  /** The origin: JSON, by its key. */
  readonly load: (key: string) => Promise<string>
}

export interface OpenPeer {
  readonly id: string
  readonly name: string
  readonly packages: readonly string[]
  readonly workspace?: string
  readonly open: (settings: OpenSettings) => Promise<RequestHandler[]>
}

/** A handler that gets JSON and sends it as it is. */
export const sending =
  (get: (key: string) => Promise<unknown>): RequestHandler =>
  async (req, res) => {
    res.type('json').send(await get(String(req.params.key)))
  }
