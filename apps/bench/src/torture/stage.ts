// Everything that a scenario works with: caches of several processes, an origin, and a Redis.
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Origin } from './origin.ts'
import type { Instance, Peer, Settings } from './peer.ts'
import { urlOf } from './redis-server.ts'

/** Some caches subscribe after their constructor has returned. */
const SETTLE_MS = 150

export interface Stage {
  readonly peer: Peer
  readonly origin: Origin
  readonly redis: RedisControl
  /** Opens the cache of one more process, with its own connections, and makes a first call. */
  readonly open: (settings?: Partial<Settings>) => Promise<Instance>
}

export interface RedisControl {
  readonly port: number
  /** A connection for commands of the scenario. */
  readonly admin: Redis
  readonly freeze: () => void
  readonly kill: () => void
}

export async function createStage(peer: Peer, port: number, pid: number): Promise<Stage> {
  const { open } = await peer.load()
  const origin = new Origin()
  const admin = await connectAdmin(port)
  let opened = 0
  return {
    peer,
    origin,
    redis: {
      port,
      admin,
      freeze: () => void process.kill(pid, 'SIGSTOP'),
      kill: () => void process.kill(pid, 'SIGKILL'),
    },
    async open(settings = {}) {
      const instance = await open({
        redisUrl: urlOf(port),
        ttlMs: 600_000,
        staleMs: 0,
        tags: [],
        client: 'guarded',
        load: origin.load,
        ...settings,
      })
      await sleep(SETTLE_MS)
      opened += 1
      await instance.get(`first-${opened}`)
      origin.reset()
      return instance
    },
  }
}

/** Connects as a user of its own, so that restrictions for the caches do not apply to it. */
async function connectAdmin(port: number): Promise<Redis> {
  const setUp = new Redis(urlOf(port))
  await setUp.call('ACL', 'SETUSER', 'admin', 'on', '>admin', '~*', '&*', '+@all')
  setUp.disconnect()
  const admin = new Redis(urlOf(port), { username: 'admin', password: 'admin' })
  admin.on('error', () => {})
  return admin
}
