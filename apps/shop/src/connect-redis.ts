// The connection to Redis, if REDIS_URL asks for one. A Redis that cannot be reached at start is a mistake
// to report; one that goes away later is not, since the cache fails open and ioredis reconnects.

import { Redis } from 'ioredis'
import { type Settings, StartError, withoutPassword } from './settings.ts'

const PATIENCE_MS = 4_000

/** Undefined without REDIS_URL. Throws `StartError` when nothing usable answers there. */
export async function connectRedis(
  settings: Pick<Settings, 'redisUrl'>,
): Promise<Redis | undefined> {
  const { redisUrl } = settings
  if (redisUrl === undefined) return undefined
  let started = false
  let lastError: Error | undefined
  const redis = new Redis(redisUrl, {
    lazyConnect: true,
    connectTimeout: PATIENCE_MS,
    retryStrategy: (attempt) => (started ? Math.min(attempt * 100, 2_000) : null),
  })
  redis.on('error', (error: Error) => (lastError = error))
  try {
    await inTime(redis.connect().then(() => redis.ping()))
  } catch (error) {
    redis.disconnect()
    throw unreachable(redisUrl, lastError ?? error)
  }
  started = true
  reportOutages(redis, withoutPassword(redisUrl))
  return redis
}

/** A server that accepts the connection and then says nothing would be waited for without end. */
async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${PATIENCE_MS} ms`)), PATIENCE_MS)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

function unreachable(redisUrl: string, error: unknown): StartError {
  const { code, message } = error as NodeJS.ErrnoException
  // ECONNREFUSED on a name with two addresses may come as an AggregateError without a message of its own.
  const said = (message || code || 'no connection').replaceAll(/\s+/g, ' ')
  const why = said.startsWith('NOAUTH') ? 'it asks for a password' : said
  const url = withoutPassword(redisUrl)
  return new StartError(
    `REDIS_URL=${url}: cannot use it (${why}); start Redis there, correct it, or unset it to run without Redis`,
  )
}

function reportOutages(redis: Redis, url: string): void {
  let out = false
  redis.on('close', () => {
    if (!out && redis.status !== 'end') console.error(`Redis at ${url} is gone; serving without it`)
    out = true
  })
  redis.on('ready', () => {
    if (out) console.error(`Redis at ${url} is back`)
    out = false
  })
}
