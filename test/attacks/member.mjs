// A member of the fleet under attack. It serves each target on its own port, with its own Redis
// prefix. Environment: REDIS_URL.
// @ts-check
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { runMember } from '../harness/servers/member.mjs'
import { listenerOf } from './apps.mjs'
import { runs, targetOf } from './targets.mjs'

const { REDIS_URL = '' } = process.env
const redis = new Redis(REDIS_URL)
/**
 * By prefix.
 * @type {Map<string, { fills(): number, close(): Promise<unknown> }>}
 */
const opened = new Map()

/** @param {string} framework @param {string} target @param {string} prefix */
async function open(framework, target, prefix) {
  const stampede = createStampede({ store: redisStore(redis, { prefix, commandTimeoutMs: 5_000 }) })
  const server = createServer(listenerOf(framework, targetOf(target), stampede))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  opened.set(prefix, {
    fills: () => stampede.stats().active.flights,
    async close() {
      opened.delete(prefix)
      server.closeAllConnections()
      server.close()
      await stampede.close()
    },
  })
  return server.address()
}

await runMember({
  listener: (_req, res) => void res.end(),
  async answer({ type, framework, target, prefix }) {
    if (type === 'open') return open(framework, target, prefix)
    if (type === 'fills') return opened.get(prefix)?.fills() ?? 0
    if (type === 'close') return opened.get(prefix)?.close()
    if (type === 'runs') return runs.get(target) ?? 0
    throw new Error(`Unknown question ${type}`)
  },
  async close() {
    await Promise.all([...opened.values()].map(({ close }) => close()))
    redis.disconnect()
  },
})
