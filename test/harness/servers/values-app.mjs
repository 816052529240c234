// A fleet member whose every request is a `getOrSet` call. Its factory asks the origin of the test,
// and skips the value. Environment: REDIS_URL, ORIGIN_URL, CACHE (options of the data cache, as
// JSON) and STORE (of redisStore).
// @ts-check
import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { askOrigin } from './ask-origin.mjs'
import { runMember } from './member.mjs'

const { REDIS_URL = '', CACHE = '', STORE = '{}' } = process.env
const redis = new Redis(REDIS_URL, { lazyConnect: true })
const stampede = createStampede({ store: redisStore(redis, JSON.parse(STORE)) })
const values = stampede.cache('values', JSON.parse(CACHE))

/** Factories that run now, and the most that ran at once. */
let running = 0
let most = 0

/** @param {string} target @returns {Promise<string>} */
async function load(target) {
  running += 1
  most = Math.max(most, running)
  try {
    return (await askOrigin(target)).body.toString()
  } finally {
    running -= 1
  }
}

await runMember({
  async listener({ url = '' }, res) {
    try {
      res.end(await values.getOrSet(url, async ({ skip }) => skip(await load(url), 60_000)))
    } catch (error) {
      res.writeHead(500).end(String(error))
    }
  },
  answer: () => ({ most, stats: stampede.stats() }),
  async close() {
    redis.disconnect()
    await stampede.close()
  },
})
