// Connects to Redis if REDIS_URL is set. Without Redis at the start the shop reports an error. A
// later outage is no error, because the cache fails open and ioredis reconnects.

import { Redis } from 'ioredis'
import { type Settings, StartError, withoutPassword } from './settings.ts'

const CONNECT_TIMEOUT_MS = 4_000

/** Undefined without REDIS_URL. Throws `StartError` if there is no usable Redis at that address. */
export async function connectRedis(
  settings: Pick<Settings, 'redisUrl'>,
): Promise<Redis | undefined> {
  const { redisUrl } = settings
  if (redisUrl === undefined) return undefined
  let started = false
  let lastError: Error | undefined
  const redis = new Redis(redisUrl, {
    lazyConnect: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
    retryStrategy: (attempt) => (started ? Math.min(attempt * 100, 2_000) : null),
  })
  redis.on('error', (error: Error) => (lastError = error))
  try {
    await withTimeout(redis.connect().then(() => redis.ping()))
  } catch (error) {
    redis.disconnect()
    throw unreachable(redisUrl, lastError ?? error)
  }
  started = true
  reportOutages(redis, withoutPassword(redisUrl))
  return redis
}

/** Limits the wait for a server that accepts the connection and never replies. */
async function withTimeout<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`no reply within ${CONNECT_TIMEOUT_MS} ms`)),
      CONNECT_TIMEOUT_MS,
    )
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

function unreachable(redisUrl: string, error: unknown): StartError {
  const { code, message } = error as NodeJS.ErrnoException
  // For a name with two addresses, ECONNREFUSED may be an AggregateError without a message.
  const said = (message || code || 'no connection').replaceAll(/\s+/g, ' ')
  const why = said.startsWith('NOAUTH') ? 'it asks for a password' : said
  const url = withoutPassword(redisUrl)
  return new StartError(
    `REDIS_URL=${url}: cannot use it (${why}); start Redis there, correct the URL, or unset it to run without Redis`,
  )
}

function reportOutages(redis: Redis, url: string): void {
  let out = false
  redis.on('close', () => {
    if (!out && redis.status !== 'end')
      console.error(`Redis at ${url} is unavailable; the shop works without it`)
    out = true
  })
  redis.on('ready', () => {
    if (out) console.error(`Redis at ${url} is available again`)
    out = false
  })
}
