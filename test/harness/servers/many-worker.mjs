// A fleet member with a data cache. It calls getOrSetMany with random keys, and counts its runs by
// key in a witness, or does what a message says. Environment: REDIS_URL, WITNESS_URL.
// @ts-check
import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { runMember } from './member.mjs'

const { REDIS_URL = '', WITNESS_URL = '', MEMBER_INDEX = '0' } = process.env
const redis = new Redis(REDIS_URL, { lazyConnect: true })
const witness = new Redis(WITNESS_URL, { lazyConnect: true })
const stampede = createStampede({ store: redisStore(redis, { commandTimeoutMs: 30_000 }) })
const cache = stampede.cache('n', { ttlMs: 3_600_000, leaseMs: 120_000, waitMs: 300_000 })

/** @param {readonly string[]} keys */
async function load(keys) {
  const counts = witness.pipeline()
  for (const key of keys) counts.hincrby('runs', key, 1)
  await counts.exec()
  return new Map(keys.map((key) => [key, `value of ${key}`]))
}

/** Calls of one pair have keys of the same six. Several pairs run at the same time. */
async function run(/** @type {{ pairs: number, seed: number }} */ { pairs, seed }) {
  let state = seed + 1 + Number(MEMBER_INDEX) * 7_919
  const random = (/** @type {number} */ below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
  let wrong = 0
  const one = async (/** @type {number} */ pair) => {
    const keys = Array.from({ length: 1 + random(6) }, () => `${seed}:${pair}:${random(6)}`)
    if (random(2) === 0) keys.reverse()
    const values = await cache.getOrSetMany(keys, load)
    if (keys.some((key) => values.get(key) !== `value of ${key}`)) wrong += 1
  }
  for (let done = 0; done < pairs; done += 20) {
    await Promise.all(Array.from({ length: 20 }, (_, i) => one(done + i)))
  }
  // The last commits may still wait for their replies.
  while (stampede.stats().active.flights > 0) await new Promise((resolve) => setTimeout(resolve, 5))
  return wrong
}

/** @typedef {'set' | 'get' | 'clear' | 'hang'} Action */
/** @typedef {{ do?: Action, keys?: string[], pairs?: number, seed?: number }} Message */

/** @param {Message} message */
async function answer({ do: action, keys = [], pairs = 0, seed = 0 }) {
  if (action === undefined) return run({ pairs, seed })
  if (action === 'set') return cache.setMany(keys.map((key) => [key, key]))
  if (action === 'get') return [...(await cache.getMany(keys)).keys()]
  if (action === 'clear') return cache.clear()
  // The reply comes when the factory runs, which never ends.
  return new Promise((begun) => {
    const hang = () => {
      begun(undefined)
      return new Promise(() => {})
    }
    cache.getOrSetMany(keys, /** @type {any} */ (hang), { leaseMs: 1_000 }).catch(() => {})
  })
}

await runMember({
  listener: (_, response) => response.end(),
  answer,
  close: async () => {
    await stampede.close()
    redis.disconnect()
    witness.disconnect()
  },
})
