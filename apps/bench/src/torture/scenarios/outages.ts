// Scenarios with a Redis that freezes, is down, refuses writes or refuses reads: T7, T8, T9, T11.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import type { Instance } from '../peer.ts'
import type { Stage } from '../stage.ts'
import { counted, decide, inWords, type Result, type Verdict } from '../verdict.ts'
import { watch } from '../watch.ts'
import type { Scenario } from './scenario.ts'

const LIMIT_MS = 5_000

export interface Outage {
  /**
   * `guarded`: with every option against an outage. `plain`: with default options of the Redis
   * client.
   */
  readonly guarded: { readonly known: Result; readonly cold: Result }
  readonly plain: { readonly known: Result; readonly cold: Result }
}

export function judgeOutage({ guarded, plain }: Outage): Verdict {
  const isValue = ({ kind }: Result) => kind === 'value'
  const words = ({ known, cold }: Outage['plain']) =>
    `cached key ${inWords(known)}, cold key ${inWords(cold)}`
  const seen = `With the options above: ${words(guarded)}. With the default options of the client: ${words(plain)}.`
  return decide([isValue(guarded.known), isValue(guarded.cold)], seen, [
    { label: 'time for a cached key', value: guarded.known.ms, unit: 'ms' },
    { label: 'time for a cold key', value: guarded.cold.ms, unit: 'ms' },
  ])
}

async function runOutage({ open, redis }: Stage, strike: () => void): Promise<Verdict> {
  const instances = [await open({ client: 'guarded' }), await open({ client: 'plain' })] as const
  for (const each of instances) await each.get('known')
  redis.admin.disconnect()
  strike()
  await sleep(50)
  const ask = async (cache: Instance, cold: string) => {
    const known = watch(() => cache.get('known'), LIMIT_MS)
    return { cold: await watch(() => cache.get(cold), LIMIT_MS), known: await known }
  }
  const [guarded, plain] = await Promise.all([
    ask(instances[0], 'cold to the guarded'),
    ask(instances[1], 'cold to the plain'),
  ])
  return judgeOutage({ guarded, plain })
}

export interface RefusedWrite {
  readonly reader: Result
  readonly loads: number
}

export function judgeRefusedWrite({ reader, loads }: RefusedWrite): Verdict {
  const seen = `The reader got ${inWords(reader)}. ${counted(loads, 'load')} followed.`
  return decide([reader.kind === 'value'], seen)
}

async function runRefusedWrite({ open, origin, redis }: Stage): Promise<Verdict> {
  const cache = await open({ ttlMs: 1_000, staleMs: 60_000 })
  await cache.get('stale')
  await sleep(1_300)
  origin.reset()
  origin.value = 'new'
  await redis.admin.config('SET', 'maxmemory', '1')
  const reader = await watch(() => cache.get('stale'), LIMIT_MS)
  await sleep(1_000)
  return judgeRefusedWrite({ reader, loads: origin.calls })
}

export interface RefusedRead {
  readonly reader: Result
  /** Number of deleted keys, as Redis counts them. */
  readonly deletes: number
}

export function judgeRefusedRead({ reader, deletes }: RefusedRead): Verdict {
  const seen = `The reader got ${inWords(reader)}. Redis executed ${counted(deletes, 'delete')}.`
  return decide([reader.kind === 'value', deletes === 0], seen)
}

async function runRefusedRead({ open, redis }: Stage): Promise<Verdict> {
  const filler = await open()
  await filler.get('shared')
  const reader = await open()
  const before = await deletes(redis.admin)
  await redis.admin.call('ACL', 'SETUSER', 'default', '-@read')
  const result = await watch(() => reader.get('shared'), LIMIT_MS)
  await sleep(200)
  const after = await deletes(redis.admin)
  return judgeRefusedRead({ reader: result, deletes: after - before })
}

async function deletes(admin: Redis): Promise<number> {
  const info = await admin.info('commandstats')
  const calls = [...info.matchAll(/cmdstat_(?:del|unlink|getdel):calls=(\d+)/g)]
  return calls.reduce((sum, [, count]) => sum + Number(count), 0)
}

export const outages: readonly Scenario[] = [
  {
    id: 'T7',
    title: 'Redis freezes',
    story:
      'Redis stops replying, with all connections open. A process asks for a key that it has served before, and for a cold key.',
    criterion: `both calls return a value within ${LIMIT_MS} ms, with every option that helps.`,
    run: (stage) => runOutage(stage, stage.redis.freeze),
  },
  {
    id: 'T8',
    title: 'Redis is down',
    story: 'Redis is killed, and connections are refused. A process asks for the same two keys.',
    criterion: `both calls return a value within ${LIMIT_MS} ms, with every option that helps.`,
    run: (stage) => runOutage(stage, stage.redis.kill),
  },
  {
    id: 'T9',
    title: 'a refresh that Redis refuses to store',
    story:
      'A stale value is refreshed in the background. Redis is out of memory and refuses every write.',
    criterion:
      'the reader gets a value, and no promise rejection is unhandled. Such a rejection ends the process.',
    run: runRefusedWrite,
  },
  {
    id: 'T11',
    title: 'a read that Redis refuses',
    story:
      'Redis refuses reads for a while. A process without the value in memory asks for a key that another process has filled.',
    criterion:
      'the reader gets a value, and no key is deleted from Redis because it could not be read.',
    run: runRefusedRead,
  },
]
