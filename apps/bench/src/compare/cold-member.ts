// One process with many callers of a cold key.
import { setTimeout as sleep } from 'node:timers/promises'
import { openPeer } from '../torture/peers.ts'
import { blockedMs, hold, origin, watchBlocking } from './held-origin.ts'

/** The cache of a process, with Redis as its store. */
export async function start(id: string, redisUrl: string) {
  const common = { redisUrl, ttlMs: 60_000, staleMs: 0, tags: [], client: 'plain' } as const
  const load = async (): Promise<string> => {
    origin.calls += 1
    await origin.hasEnded
    return 'the value'
  }
  const cache = await openPeer(id, { ...common, load })
  const callers = (key: string, count: number) =>
    Promise.all(Array.from({ length: count }, () => cache.get(key)))
  return {
    /** Callers of one of several processes, with an origin that takes some time. */
    async askTogether(key: string, count: number, originMs: number) {
      hold()
      origin.hasEnded = sleep(originMs)
      const since = performance.now()
      await callers(key, count)
      return { originCalls: origin.calls, slowestMs: performance.now() - since }
    },
    async askAlone(key: string, count: number) {
      hold()
      const asked = callers(key, count)
      // Some caches ask Redis before they call the origin. From here on, the origin is running.
      while (origin.calls === 0) await sleep(5)
      await watchBlocking()
      const since = performance.now()
      origin.end()
      const values = new Set(await asked)
      const settledMs = performance.now() - since
      if (values.size !== 1 || !values.has('the value')) throw new Error(`got ${[...values]}`)
      return { originCalls: origin.calls, settledMs, blockedMs: await blockedMs() }
    },
  }
}
