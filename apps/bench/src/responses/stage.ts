// The tools of a case: servers of one cache, a counted handler, and a client.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { urlOf } from '../torture/redis-server.ts'
import { ask, type Got, type Sent } from './client.ts'
import type { Handler, Peer } from './peer.ts'

export const PATH = '/page'

export interface Site {
  readonly get: (sent?: Sent) => Promise<Got>
  readonly purge: () => Promise<unknown>
}

export interface Stage {
  readonly redisPid: number
  /** Runs of the handler, in all sites. */
  readonly runs: () => number
  /** A server with the cache of the peer, as in a process of its own. */
  readonly open: (handler: Handler, ttlMs?: number) => Promise<Site>
}

export async function createStage(peer: Peer, port: number, redisPid: number): Promise<Stage> {
  const { open } = await peer.load()
  let runs = 0
  return {
    redisPid,
    runs: () => runs,
    async open(handler, ttlMs = 60_000) {
      const { listener, purge } = await open({
        redisUrl: urlOf(port),
        ttlMs,
        reply: async ({ method, headers }) => handler({ method, headers, run: ++runs }),
      })
      const server = createServer(listener).listen(0, '127.0.0.1')
      await once(server, 'listening')
      const at = (server.address() as AddressInfo).port
      return { get: (sent) => ask(at, PATH, sent), purge: () => purge(PATH) }
    },
  }
}
