// A member of the fleet under attack. It serves each target on its own port, with its own Redis
// prefix. Environment: FRAMEWORK, REDIS_URL.
// @ts-check
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { runMember } from '../harness/servers/member.mjs'
import { listenerOf } from './apps.mjs'
import { runs, targetOf } from './targets.mjs'

const { FRAMEWORK = '', REDIS_URL = '' } = process.env
const redis = new Redis(REDIS_URL)
/** @type {Array<() => Promise<unknown>>} */
const closings = []

/** @param {string} target @param {string} prefix */
async function open(target, prefix) {
  const stampede = createStampede({ store: redisStore(redis, { prefix }) })
  const server = createServer(listenerOf(FRAMEWORK, targetOf(target), stampede))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closings.push(async () => {
    server.closeAllConnections()
    server.close()
    await stampede.close()
  })
  return server.address()
}

await runMember({
  listener: (_req, res) => void res.end(),
  async answer({ type, target, prefix }) {
    if (type === 'open') return open(target, prefix)
    if (type === 'runs') return runs.get(target) ?? 0
    throw new Error(`Unknown question ${type}`)
  },
  async close() {
    await Promise.all(closings.map((close) => close()))
    redis.disconnect()
  },
})
