// The two environment variables of the demo, read before anything starts. Called by main.ts.

import { Redis } from 'ioredis'

export interface Settings {
  /** Undefined: the coordinator has the locks in memory. */
  readonly redisUrl: string | undefined
  /** False with FENCE=off: the late write is accepted, and a job is done twice. */
  readonly fenced: boolean
}

/**
 * Reason why the demo cannot start, in one line: the variable, its value and the fix. Printed
 * without a stack.
 */
export class StartError extends Error {
  override readonly name = 'StartError'
}

type Environment = Readonly<Record<string, string | undefined>>

const TIMEOUT_MS = 4_000
const FIX = 'use redis://host:port or rediss://host:port, or unset it to run without Redis'

/** Reads REDIS_URL (none) and FENCE (on). Empty means unset. Throws `StartError`. */
export function readSettings(
  env: Environment,
  platform: NodeJS.Platform = process.platform,
): Settings {
  if (platform === 'win32') {
    throw new StartError('This demo pauses processes, which Windows cannot do; run it in WSL')
  }
  const fence = env.FENCE?.trim() || 'on'
  if (fence !== 'on' && fence !== 'off') {
    throw new StartError(`FENCE=${fence}: use on or off, or unset it`)
  }
  return { redisUrl: readRedisUrl(env.REDIS_URL?.trim()), fenced: fence === 'on' }
}

function readRedisUrl(text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined
  const protocol = URL.canParse(text) ? new URL(text).protocol : undefined
  if (protocol === 'redis:' || protocol === 'rediss:') return text
  // The value may contain a password in a form that URL parsers do not recognise.
  const shown = text.includes('@') ? '(hidden, it may hold a password)' : text
  throw new StartError(`REDIS_URL=${shown}: ${FIX}`)
}

/** Returns a Redis URL without its password, for messages. */
export function withoutPassword(url: string): string {
  const { protocol, host, pathname } = new URL(url)
  return `${protocol}//${host}${pathname === '/' ? '' : pathname}`
}

/** Throws `StartError` if no usable Redis replies there within four seconds. */
export async function checkRedis(redisUrl: string): Promise<void> {
  const redis = new Redis(redisUrl, {
    lazyConnect: true,
    connectTimeout: TIMEOUT_MS,
    commandTimeout: TIMEOUT_MS,
    retryStrategy: () => null,
  })
  let lastError: Error | undefined
  redis.on('error', (error: Error) => (lastError = error))
  try {
    await redis.connect()
    await redis.ping()
  } catch (error) {
    const { message, code } = (lastError ?? error) as NodeJS.ErrnoException
    // For a name with two addresses, ECONNREFUSED may be an AggregateError without a message.
    const why = (message || code || 'no connection').replaceAll(/\s+/g, ' ')
    const url = withoutPassword(redisUrl)
    throw new StartError(`REDIS_URL=${url}: cannot use it (${why}); start Redis there, or unset it`)
  } finally {
    redis.disconnect()
  }
}
