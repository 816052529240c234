// The connection of one run: a Stampede on the fleet's Redis, whose process only looks.

import { createStampede, type Stampede, type StampedeStore } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { Unreachable, UsageError } from './errors.ts'

export interface Settings {
  readonly url: string
  readonly prefix: string
  /** Time budget of one operation. For `doctor`: of the whole check. */
  readonly timeoutMs: number
  /** Name of the master, if `url` is that of a Sentinel. */
  readonly sentinel?: string | undefined
  readonly secret?: string | undefined
  readonly encryptionKeys: readonly string[]
}

export interface Fleet extends AsyncDisposable {
  readonly stampede: Stampede
  readonly store: StampedeStore
  /** A connection for plain commands. */
  readonly probe: Redis
  readonly isCluster: boolean
}

/** The `keyPrefix` in the query of the URL. */
export function keyPrefixOf({ url }: Settings): string {
  return new URL(url).searchParams.get('keyPrefix') ?? ''
}

/** First part of all names: `redisStore` puts the `keyPrefix` of its client before `prefix`. */
export function wholePrefix(settings: Settings): string {
  return keyPrefixOf(settings) + settings.prefix
}

/** The URL without `keyPrefix`, because commands and the store get complete names. */
function addressOf({ url }: Settings): string {
  const address = new URL(url)
  address.searchParams.delete('keyPrefix')
  return String(address)
}

/** `redis://host:port` without the password, for messages. */
export function shownUrl({ url }: Settings): string {
  const { protocol, hostname, port } = new URL(url)
  return `${protocol}//${hostname}:${port === '' ? 6379 : port}`
}

/** A plain connection that neither queues nor retries. Each reply is due within `timeoutMs`. */
export function openProbe(settings: Settings): Redis {
  const { timeoutMs } = settings
  const common = {
    lazyConnect: true,
    enableReadyCheck: false,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    connectTimeout: timeoutMs,
    commandTimeout: timeoutMs,
  }
  const probe = openServer(settings, common)
  // Without a listener, ioredis prints each error. The failed command has it too.
  probe.on('error', () => {})
  return probe
}

/** Connects `probe`. Rejects with `Unreachable`. */
export async function connectProbe(probe: Redis, settings: Settings): Promise<void> {
  let last: Error | undefined
  probe.on('error', (error: Error) => {
    last = error
  })
  try {
    await within(settings.timeoutMs, probe.connect())
  } catch (error) {
    const where = shownUrl(settings)
    if (probe.status === 'connect' && last === undefined) {
      throw new Unreachable(
        `${where} accepts connections, but did not reply within ${settings.timeoutMs} ms`,
      )
    }
    const { message, code } = (last ?? error) as NodeJS.ErrnoException
    throw new Unreachable(`cannot connect to ${where}: ${message || code}`)
  }
}

/** Opens the store. Rejects with `Unreachable` if Redis does not reply in time. */
export async function openFleet(settings: Settings): Promise<Fleet> {
  const probe = openProbe(settings)
  try {
    await connectProbe(probe, settings)
    const isCluster = await hasCluster(probe, settings)
    const client = openClient(settings, isCluster)
    const { timeoutMs: commandTimeoutMs, secret, encryptionKeys } = settings
    const store = redisStore(client, { prefix: wholePrefix(settings), commandTimeoutMs })
    const idempotency = { ...(secret !== undefined && { secret }), encryptionKeys }
    const stampede = createStampede({ store, idempotency })
    const close = async () => {
      probe.disconnect()
      await stampede.close()
    }
    return { stampede, store, probe, isCluster, [Symbol.asyncDispose]: close }
  } catch (error) {
    probe.disconnect()
    throw error
  }
}

/** A client for `redisStore`, which only copies its address and credentials. */
export function openClient(
  settings: Settings,
  isCluster: boolean,
): Parameters<typeof redisStore>[0] {
  if (!isCluster) return openServer(settings, { lazyConnect: true })
  const { hostname, port, protocol } = new URL(settings.url)
  const redisOptions = { ...credentialsOf(settings), ...(protocol === 'rediss:' && { tls: {} }) }
  const node = { host: hostname, port: Number(port || 6379) }
  return new Cluster([node], { lazyConnect: true, redisOptions })
}

/** A client of the server of the URL, or of the master that this Sentinel names. */
function openServer(settings: Settings, options: Omit<RedisOptions, 'replyMapping'>): Redis {
  const { url, sentinel: name } = settings
  if (name === undefined) return new Redis(addressOf(settings), options)
  const { hostname, port } = new URL(url)
  const sentinels = [{ host: hostname, port: Number(port || 26379) }]
  return new Redis({ ...options, sentinels, name, ...credentialsOf(settings) })
}

function credentialsOf({ url }: Settings) {
  const { username, password } = new URL(url)
  return {
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) }),
  }
}

/** Resolves with `promise`, or rejects with `Unreachable` after `ms`. */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Unreachable(`no reply within ${Math.ceil(ms)} ms`)), ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

export function readUrl(text: string): string {
  const { protocol, username, password } = new URL(text)
  // The message has no more of the URL, because that may contain a password.
  if (!/^rediss?:$/.test(protocol)) {
    const problem = `received a URL that begins with ${protocol}`
    throw new UsageError(`--redis: ${problem}; use redis://host:6379 or rediss://host:6379`)
  }
  try {
    decodeURIComponent(username + password)
  } catch {
    throw new UsageError('--redis: write a percent sign in the user or password as %25')
  }
  return text
}

export async function hasCluster(probe: Redis, settings: Settings): Promise<boolean> {
  try {
    const info = await within(settings.timeoutMs, probe.info('cluster'))
    return info.includes('cluster_enabled:1')
  } catch (error) {
    const { name, message } = error as Error
    // The user may not run INFO. Then a single server is assumed.
    if (name === 'ReplyError' && message.startsWith('NOPERM')) return false
    throw new Unreachable(`${shownUrl(settings)}: ${message}`)
  }
}
