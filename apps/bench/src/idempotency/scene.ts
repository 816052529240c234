// Everything that a case works with: a server of the library, a Redis, a key, and the runs.
import { setTimeout as sleep } from 'node:timers/promises'
import { pathOf, type Way } from './orders.ts'
import type { Peer } from './peer.ts'
import type { PeerProcess, RunLog, RunSeen } from './peer-process.ts'
import type { RedisProcess } from './redis-process.ts'
import { type ClientResponse, post, type Sent } from './request.ts'

/** Some libraries store in the background. A client's retry comes later than that. */
const SETTLE_MS = 150

export interface Scene {
  readonly peer: Peer
  /** The key of the case, new for each case. Requests send it by default. */
  readonly key: string
  readonly redis: RedisProcess
  readonly server: PeerProcess
  /** Starts one more server of the library on the same Redis. */
  readonly another: () => Promise<PeerProcess>
  readonly send: (way: Way, sent?: Sent, to?: PeerProcess) => Promise<ClientResponse>
  /** Sends the request again a little later, like a client. */
  readonly retry: (way: Way, sent?: Sent, to?: PeerProcess) => Promise<ClientResponse>
  /** All runs so far. Waits until the runs before the last response have been reported. */
  readonly runs: () => Promise<RunSeen[]>
  readonly nthRun: (n: number) => Promise<RunSeen>
}

export function createScene(
  peer: Peer,
  key: string,
  redis: RedisProcess,
  server: PeerProcess,
  log: RunLog,
  another: () => Promise<PeerProcess>,
): Scene {
  const send: Scene['send'] = (way, sent = {}, to = server) => post(to.port, pathOf(way), key, sent)
  return {
    peer,
    key,
    redis,
    server,
    another,
    send,
    async retry(way, sent, to) {
      await sleep(SETTLE_MS)
      return send(way, sent, to)
    },
    async runs() {
      await sleep(50)
      return log.of(key)
    },
    nthRun: (n) => log.nth(key, n),
  }
}
