// The Redis of a run: REDIS_URL if it is set, else a new server on a free port.
import { Redis } from 'ioredis'
import { startRedis, urlOf } from '../torture/redis-server.ts'

export interface OpenRedis extends AsyncDisposable {
  readonly url: string
  readonly version: string
}

export async function openRedis(): Promise<OpenRedis> {
  const given = process.env.REDIS_URL
  if (given) {
    const keep = async (): Promise<void> => {}
    return { url: given, version: await versionOf(given), [Symbol.asyncDispose]: keep }
  }
  const server = await startRedis()
  const stop = (): PromiseLike<void> => server[Symbol.asyncDispose]()
  return { url: urlOf(server.port), version: server.version, [Symbol.asyncDispose]: stop }
}

async function versionOf(url: string): Promise<string> {
  const client = new Redis(url)
  const info = await client.info('server')
  client.disconnect()
  return /redis_version:(\S+)/.exec(info)?.[1] ?? 'unknown'
}

/** How often these commands ran since the last CONFIG RESETSTAT. */
export async function commandCalls(client: Redis, names: readonly string[]): Promise<number> {
  const info = await client.info('commandstats')
  const calls = [...info.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)]
  return calls
    .filter(([, name = '']) => names.includes(name))
    .reduce((sum, [, , n]) => sum + Number(n), 0)
}
