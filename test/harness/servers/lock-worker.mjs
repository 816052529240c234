// A fleet member that takes locks as the test commands, and reports to the witness who holds them.
// Environment: REDIS_URL or POSTGRES_URL, WITNESS_URL, IOREDIS, LOCKS (options of createLocks, as
// JSON) and STORE (of the store).
// @ts-check
import { createLocks } from '@stampede/locks'
import { postgresStore } from '@stampede/postgres'
import { redisStore } from '@stampede/redis'
import pg from 'pg'
import { runMember } from './member.mjs'

const {
  REDIS_URL = '',
  POSTGRES_URL = '',
  WITNESS_URL = '',
  IOREDIS = '6',
  MEMBER_INDEX = '0',
} = process.env
const { Redis: Client } = await import(IOREDIS === '5' ? 'ioredis5' : 'ioredis')
const redis = new Client(REDIS_URL, { lazyConnect: true })
const witness = WITNESS_URL === '' ? undefined : new Client(WITNESS_URL)
const pool = new pg.Pool({ connectionString: POSTGRES_URL, max: 4 })
const store = POSTGRES_URL
  ? postgresStore(pool, JSON.parse(process.env.STORE ?? '{}'))
  : redisStore(redis, JSON.parse(process.env.STORE ?? '{"commandTimeoutMs":5000}'))
const locks = createLocks({ store, ...JSON.parse(process.env.LOCKS ?? '{}') })

/** @typedef {{ fence: string, askedAt: number, hadAt: number }} Had */
/** @typedef {Promise<import('@stampede/locks').Lease>} PendingLease */
/** @type {Map<string, { lease: PendingLease, had: Promise<Had>, abort: AbortController }>} */
const named = new Map()

const clock = () => performance.timeOrigin + performance.now()

/** @param {any} message */
function begin({ as, key, options = {} }) {
  const abort = new AbortController()
  const askedAt = clock()
  const lease = locks.acquire(key, { ...options, signal: abort.signal })
  const had = lease.then(({ fence }) => ({ fence: String(fence), askedAt, hadAt: clock() }))
  // A later command that asks for the outcome gets the failure.
  had.catch(() => {})
  named.set(as, { lease, had, abort })
}

/** @param {string} as */
function find(as) {
  const found = named.get(as)
  if (found === undefined) throw new Error(`Nothing is called ${as} here`)
  return found
}

/** One waiter of many: as the holder it calls the witness, whose order is that of the grants. */
async function enter(/** @type {any} */ { key, options = {}, holdMs = 0 }) {
  const askedAt = clock()
  const lease = await locks.acquire(key, options)
  const waitedMs = clock() - askedAt
  await witness?.rpush('log', `enter ${MEMBER_INDEX} ${lease.fence}`)
  if (holdMs > 0) await new Promise((resolve) => setTimeout(resolve, holdMs))
  await witness?.rpush('log', `leave ${MEMBER_INDEX} ${lease.fence}`)
  return { waitedMs, released: await lease.release() }
}

/** Two statements, so that only the lock and its fence keep two holders apart. */
async function countOne(/** @type {string} */ key, /** @type {bigint} */ fence) {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query('select stampede.assert_fence($1, $2)', [key, fence.toString()])
    const { rows } = await client.query('select count(*)::int as n from counted')
    await client.query('insert into counted values ($1, $2)', [rows[0].n + 1, fence.toString()])
    await client.query('commit')
  } finally {
    client.release()
  }
}

/** @type {Promise<Array<{ waitedMs: number, released: string }>> | undefined} */
let crowd

/** @type {Record<string, (message: any) => unknown>} */
const answers = {
  /** Begins to wait, and replies at once. */
  begin,
  async had({ as }) {
    return find(as).had
  },
  async acquire(message) {
    begin(message)
    return find(message.as).had
  },
  abort: ({ as }) => find(as).abort.abort(),
  async release({ as }) {
    return (await find(as).lease).release()
  },
  /** `fence`, and what the holder knows of its lease at this moment. */
  async holds({ as }) {
    const lease = await find(as).lease
    return { remainingMs: lease.remainingMs(), aborted: lease.signal.aborted }
  },
  crowd(message) {
    crowd = Promise.all(Array.from({ length: message.waiters }, () => enter(message)))
    crowd.catch(() => {})
  },
  crowded: () => crowd,
  /** Counts on in a table, one number under each lease. Returns the errors. */
  async count({ key, rounds }) {
    /** @type {string[]} */
    const errors = []
    for (let round = 0; round < rounds; round++) {
      await locks.run(key, ({ fence }) => countOne(key, fence)).catch((e) => errors.push(`${e}`))
    }
    return errors
  },
  /** Locks and frees the key one round after another, and for this time. Returns the errors. */
  async toil({ ms, key, rounds: least }) {
    /** @type {string[]} */
    const errors = []
    let rounds = 0
    for (const until = clock() + ms; clock() < until || rounds < least; rounds++) {
      await locks.run(key, () => {}).catch((error) => errors.push(String(error)))
    }
    return errors
  },
}

await runMember({
  listener: (_req, res) => void res.end(),
  async answer({ type, ...message }) {
    const answer = answers[type]
    if (answer === undefined) throw new Error(`Unknown question ${type}`)
    return answer(message)
  },
  async close() {
    redis.disconnect()
    witness?.disconnect()
    await locks.close()
    await pool.end()
  },
})
