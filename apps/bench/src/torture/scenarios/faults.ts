// Scenarios with several processes, and with a Redis that freezes, is down or refuses commands.
import { setTimeout as sleep } from 'node:timers/promises'
import { startChild } from '../../lib/child.ts'
import { commandCalls } from '../../lib/redis.ts'
import { counted, decide, tally, type Verdict } from '../../lib/verdict.ts'
import { startBusProxy } from '../bus-proxy.ts'
import type { Instance } from '../peer.ts'
import { inWords, NotSupported, type Result, type Stage, until, watch } from '../stage.ts'
import type { Scenario } from './scenario.ts'

const PROCESSES = 4
const BACK_MS = 1_000
const WATCHED_MS = 8_000

export function judgeMembers(loads: number, results: readonly string[]): Verdict {
  const seen = `${counted(loads, 'load')} in ${PROCESSES} processes. Results: ${tally(results)}.`
  return decide([loads === 1, results.every((result) => result === '"old"')], seen, [
    { label: 'loads', value: loads, unit: 'calls' },
  ])
}

async function runMembers({ peerId, redisPort }: Stage): Promise<Verdict> {
  const starting = Array.from({ length: PROCESSES }, () =>
    startChild<typeof import('../member.ts')>('torture/member', [peerId, redisPort]),
  )
  const members = await Promise.all(starting)
  const seen = await Promise.all(members.map(({ call }) => call.ask()))
  const loads = seen.reduce((sum, each) => sum + each.loads, 0)
  return judgeMembers(
    loads,
    seen.flatMap(({ results }) => results),
  )
}

interface Served {
  readonly reached: boolean
  readonly ms: number
}

/**
 * Times until the process served data that another process had purged and loaded: before the cut,
 * and after its subscription was back.
 */
export function judgeLostMessage(
  healthy: Served,
  resubscribedMs: number | undefined,
  after: Served,
): Verdict {
  const words = ({ reached, ms }: Served) =>
    `the process ${reached ? 'had the new data' : 'still had the old data'} after ${Math.round(ms)} ms`
  const back =
    resubscribedMs === undefined
      ? `Its subscription was not back in ${WATCHED_MS} ms`
      : `Its subscription was back ${Math.round(resubscribedMs)} ms after the network`
  const seen = `Before the cut, ${words(healthy)}. ${back}. From then on, ${words(after)}.`
  return decide([healthy.reached, after.reached && after.ms <= BACK_MS], seen, [
    { label: 'time until the process has the new data', value: after.ms, unit: 'ms' },
  ])
}

async function runLostMessage({ open, origin, redisPort }: Stage): Promise<Verdict> {
  const proxy = await startBusProxy(redisPort)
  const purger = await open()
  const reader = await open({ redisUrl: proxy.url })
  const before = proxy.subscriptions()
  if (before === 0) throw new NotSupported('It has no subscription to cut.')
  await purger.get('shared')
  await reader.get('shared')
  const change = async (value: string) => {
    origin.value = value
    await purger.invalidate('shared')
    await purger.get('shared')
  }
  await change('newer')
  const healthy = await until('newer', () => reader.get('shared'), 3_000)

  proxy.cut()
  await sleep(200)
  await change('newest')
  await sleep(200)
  proxy.mend()
  const mended = performance.now()
  const sinceMended = () => performance.now() - mended
  while (proxy.subscriptions() < before && sinceMended() < WATCHED_MS) await sleep(10)
  const resubscribedMs = proxy.subscriptions() >= before ? sinceMended() : undefined
  const after = await until('newest', () => reader.get('shared'), WATCHED_MS)
  return judgeLostMessage(healthy, resubscribedMs, after)
}

interface Asked {
  readonly known: Result
  readonly cold: Result
}

/**
 * `guarded`: with every option against an outage. `plain`: with default options of the Redis
 * client.
 */
export function judgeOutage(guarded: Asked, plain: Asked): Verdict {
  const { known, cold } = guarded
  const words = (asked: Asked) =>
    `cached key ${inWords(asked.known)}, cold key ${inWords(asked.cold)}`
  const seen = `With the options above: ${words(guarded)}. With the default options of the client: ${words(plain)}.`
  return decide([known.kind === 'value', cold.kind === 'value'], seen, [
    { label: 'time for a cached key', value: known.ms, unit: 'ms' },
    { label: 'time for a cold key', value: cold.ms, unit: 'ms' },
  ])
}

const runOutage = (signal: 'SIGSTOP' | 'SIGKILL') => async (stage: Stage) => {
  const clients = ['guarded', 'plain'] as const
  const instances = [await stage.open({ client: 'guarded' }), await stage.open({ client: 'plain' })]
  for (const each of instances) await each.get('known')
  stage.admin.disconnect()
  stage.signalRedis(signal)
  await sleep(50)
  const ask = async (cache: Instance, client: string): Promise<Asked> => {
    const known = watch(() => cache.get('known'))
    return { cold: await watch(() => cache.get(`cold to the ${client}`)), known: await known }
  }
  const asked = instances.map((each, index) => ask(each, clients[index] ?? ''))
  const [guarded, plain] = (await Promise.all(asked)) as [Asked, Asked]
  return judgeOutage(guarded, plain)
}

async function runRefusedWrite({ open, origin, admin }: Stage): Promise<Verdict> {
  const cache = await open({ ttlMs: 1_000, staleMs: 60_000 })
  await cache.get('stale')
  await sleep(1_300)
  origin.reset()
  origin.value = 'new'
  await admin.config('SET', 'maxmemory', '1')
  const reader = await watch(() => cache.get('stale'))
  await sleep(1_000)
  const seen = `The reader got ${inWords(reader)}. ${counted(origin.calls, 'load')} followed.`
  return decide([reader.kind === 'value'], seen)
}

/** `deletes`: number of deleted keys, as Redis counts them. */
export function judgeRefusedRead(reader: Result, deletes: number): Verdict {
  const seen = `The reader got ${inWords(reader)}. Redis executed ${counted(deletes, 'delete')}.`
  return decide([reader.kind === 'value', deletes === 0], seen)
}

async function runRefusedRead({ open, admin }: Stage): Promise<Verdict> {
  const deletes = () => commandCalls(admin, ['del', 'unlink', 'getdel'])
  const filler = await open()
  await filler.get('shared')
  const reader = await open()
  const before = await deletes()
  await admin.call('ACL', 'SETUSER', 'default', '-@read')
  const result = await watch(() => reader.get('shared'))
  await sleep(200)
  return judgeRefusedRead(result, (await deletes()) - before)
}

export const faults: readonly Scenario[] = [
  { id: 'T5', title: 'a cold key in four processes', run: runMembers },
  { id: 'T6', title: 'a purge that a process missed', run: runLostMessage },
  { id: 'T7', title: 'Redis freezes', run: runOutage('SIGSTOP') },
  { id: 'T8', title: 'Redis is down', run: runOutage('SIGKILL') },
  { id: 'T9', title: 'a refresh that Redis refuses to store', run: runRefusedWrite },
  { id: 'T11', title: 'a read that Redis refuses', run: runRefusedRead },
]
