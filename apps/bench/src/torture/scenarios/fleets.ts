// Scenarios with several processes: T5, T6.
import { setTimeout as sleep } from 'node:timers/promises'
import { BusProxy } from '../bus-proxy.ts'
import { callTogether, type MembersSeen } from '../members.ts'
import { NotSupported } from '../peer.ts'
import type { Stage } from '../stage.ts'
import { counted, decide, tally, type Verdict } from '../verdict.ts'
import { until } from '../watch.ts'
import type { Scenario } from './scenario.ts'

const BACK_MS = 1_000
const WATCHED_MS = 8_000

export function judgeMembers({ loads, processes, results }: MembersSeen): Verdict {
  const seen = `${counted(loads, 'load')} in ${processes} processes. Results: ${tally(results)}.`
  return decide([loads === 1, results.every((result) => result === '"old"')], seen, [
    { label: 'loads', value: loads, unit: 'calls' },
  ])
}

export interface LostMessage {
  /**
   * Before the cut: the time until the process served data that another process had purged and
   * loaded.
   */
  readonly healthy: { readonly reached: boolean; readonly ms: number }
  readonly resubscribedMs: number | undefined
  /** The same after its subscription was back. */
  readonly after: { readonly reached: boolean; readonly ms: number }
}

export function judgeLostMessage({ healthy, resubscribedMs, after }: LostMessage): Verdict {
  const words = ({ reached, ms }: { reached: boolean; ms: number }) =>
    reached
      ? `the process had the new data after ${Math.round(ms)} ms`
      : `the process still had the old data after ${Math.round(ms)} ms`
  const back =
    resubscribedMs === undefined
      ? `Its subscription was not back in ${WATCHED_MS} ms`
      : `Its subscription was back ${Math.round(resubscribedMs)} ms after the network`
  const seen = `Before the cut, ${words(healthy)}. ${back}. From then on, ${words(after)}.`
  return decide([healthy.reached, after.reached && after.ms <= BACK_MS], seen, [
    { label: 'time until the process has the new data', value: after.ms, unit: 'ms' },
  ])
}

async function runLostMessage({ open, origin, redis }: Stage): Promise<Verdict> {
  const proxy = await BusProxy.before(redis.port)
  const purger = await open()
  const reader = await open({ redisUrl: proxy.url })
  if (proxy.subscriptions === 0) throw new NotSupported('It has no subscription to cut.')
  const before = proxy.subscriptions
  const key = 'shared'
  await purger.get(key)
  await reader.get(key)
  const change = async (value: string) => {
    origin.value = value
    await purger.invalidate(key)
    await purger.get(key)
  }
  await change('newer')
  const healthy = await until('newer', () => reader.get(key), 3_000)

  proxy.cut()
  await sleep(200)
  await change('newest')
  await sleep(200)
  proxy.mend()
  const mended = performance.now()
  while (proxy.subscriptions < before && performance.now() - mended < WATCHED_MS) await sleep(10)
  const resubscribed = proxy.subscriptions >= before
  const resubscribedMs = resubscribed ? performance.now() - mended : undefined
  const after = await until('newest', () => reader.get(key), WATCHED_MS)
  return judgeLostMessage({ healthy, resubscribedMs, after })
}

export const fleets: readonly Scenario[] = [
  {
    id: 'T5',
    title: 'a cold key in four processes',
    story:
      'Four processes are connected and warm. In each, 25 callers ask for the same cold key at the same moment. A load takes 300 ms.',
    criterion: 'the origin is called once, and every caller gets its value.',
    run: async ({ peer, redis }) => judgeMembers(await callTogether(peer.id, redis.port)),
  },
  {
    id: 'T6',
    title: 'a purge that a process missed',
    story:
      'The network cuts only the subscription of one process. Another process purges a key and loads the new data. Then the ' +
      'network works again. A value lives ten minutes.',
    criterion: `the process serves the new data within 3000 ms of a purge before the cut, and within ${BACK_MS} ms after its subscription is back.`,
    run: runLostMessage,
  },
]
