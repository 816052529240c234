// A store on Redis without a Stampede around it, and entries that tests write through it.

import type { StampedeStore } from '@stampede/core'
import { systemClock } from '@stampede/core/store'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import { PATIENT } from './patient.ts'
import type { RedisServer } from './redis-server.ts'

type StoreHooks = Parameters<StampedeStore['attach']>[0]

const PREFIX = 't'
export const { record, wakePrefix } = names(PREFIX)
export const LIFETIMES = {
  freshMs: 600_000,
  staleWhileRevalidateMs: 2_000,
  staleIfErrorMs: 3_000,
  keepMs: 4_000,
  physicalMs: 700_000,
}

const ignore = (): void => {}
const HOOKS: StoreHooks = {
  clock: systemClock,
  ...{ onWake: ignore, onPurge: ignore, onMark: ignore, onGap: ignore },
  ...{ onForget: ignore, onLost: ignore, onError: ignore },
}

export function openBareStore(
  url: string,
  hooks: Partial<StoreHooks> = {},
  commandTimeoutMs: number = PATIENT.commandTimeoutMs,
  compress = false,
): StampedeStore {
  const client = new Redis(url, { lazyConnect: true })
  const store = redisStore(client, { prefix: PREFIX, commandTimeoutMs, compress })
  store.attach({ ...HOOKS, ...hooks })
  return store
}

export async function write(store: StampedeStore, key: string, frame: string): Promise<void> {
  const reply = await store.lookup(key, { token: 'writer', leaseMs: 5_000 })
  if (!('grant' in reply) || reply.grant === undefined) throw new Error(reply.status)
  const written = await store.commit(reply.grant, Buffer.from(frame), LIFETIMES)
  if (written !== 'committed') throw new Error(written)
}

/** Counts the commands that clients sent meanwhile: HMGET, TIME, and scripts. */
export async function sentMeanwhile(
  server: RedisServer,
  work: () => Promise<unknown>,
): Promise<{ hmget: number; time: number; scripts: number }> {
  const trace = await server.traceCommands()
  await work()
  const counts: Record<string, number> = {}
  for (const { name, from } of await trace.stop()) {
    if (from === 'client') counts[name] = (counts[name] ?? 0) + 1
  }
  const { hmget = 0, time = 0, eval: whole = 0, evalsha = 0 } = counts
  return { hmget, time, scripts: whole + evalsha }
}
