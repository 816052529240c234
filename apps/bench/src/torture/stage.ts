// What one scenario of one peer has to work with: instances, an origin, and a Redis to torture.
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Origin } from './origin.ts'
import type { Instance, Peer, Settings } from './peer.ts'
import { urlOf } from './redis-server.ts'

/** Some subscribe behind their constructor. */
const SETTLE_MS = 150

export interface Stage {
  readonly peer: Peer
  readonly origin: Origin
  readonly redis: RedisControl
  /** One more process's cache, with connections of its own, that is connected and has been used. */
  readonly open: (settings?: Partial<Settings>) => Promise<Instance>
}

export interface RedisControl {
  readonly port: number
  /** Commands that are not of the peer. */
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

/** As a user of its own: what is refused to others is not refused to it. */
async function connectAdmin(port: number): Promise<Redis> {
  const setUp = new Redis(urlOf(port))
  await setUp.call('ACL', 'SETUSER', 'admin', 'on', '>admin', '~*', '&*', '+@all')
  setUp.disconnect()
  const admin = new Redis(urlOf(port), { username: 'admin', password: 'admin' })
  admin.on('error', () => {})
  return admin
}
