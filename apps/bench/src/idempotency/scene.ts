// What one case of one peer has to work with: a server of its own, a Redis, a key, and the runs it causes.
import { setTimeout as sleep } from 'node:timers/promises'
import { pathOf, type Way } from './orders.ts'
import type { Peer } from './peer.ts'
import type { PeerProcess, RunLog, RunSeen } from './peer-process.ts'
import type { RedisProcess } from './redis-process.ts'
import { type Answer, post, type Sent } from './request.ts'

/** Some peers store behind the answer: a client's retry comes later than that. */
const SETTLE_MS = 150

export interface Scene {
  readonly peer: Peer
  /** The key of the case, new each time; sent unless a request says otherwise. */
  readonly key: string
  readonly redis: RedisProcess
  readonly server: PeerProcess
  /** One more server of the peer on the same Redis. */
  readonly another: () => Promise<PeerProcess>
  readonly send: (way: Way, sent?: Sent, to?: PeerProcess) => Promise<Answer>
  /** The same a little later, as a client's retry. */
  readonly retry: (way: Way, sent?: Sent, to?: PeerProcess) => Promise<Answer>
  /** All so far; waits until what was sent with an answer has arrived here. */
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
