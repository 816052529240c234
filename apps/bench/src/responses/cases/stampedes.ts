// Cases about many requests at once, and about purges and outages.
import { setTimeout as sleep } from 'node:timers/promises'
import { ok, unless, wrong } from '../../verdicts/verdict.ts'
import type { Case } from '../case.ts'
import type { Handler } from '../peer.ts'

/** Long enough for all requests to arrive during the first run, also on a busy machine. */
const SLOW_MS = 1_000
/** Long enough for a write to Redis that no response waits for. */
export const SETTLED_MS = 100

const slow: Handler = async ({ run }) => {
  await sleep(SLOW_MS)
  return { body: { run } }
}

export const stampedes: readonly Case[] = [
  {
    id: 'burst',
    title: '100 requests at once for a cold page: the handler runs once',
    async run({ open, runs }) {
      const site = await open(slow)
      await Promise.all(Array.from({ length: 100 }, () => site.get()))
      return unless([[runs() > 1, `${runs()} runs`]], '1 run')
    },
  },
  {
    id: 'fleet',
    title: '50 requests at each of two servers at once: the handler runs once',
    async run({ open, runs }) {
      const sites = [await open(slow), await open(slow)]
      await sleep(SETTLED_MS)
      await Promise.all(sites.flatMap((site) => Array.from({ length: 50 }, () => site.get())))
      return unless([[runs() > 1, `${runs()} runs`]], '1 run')
    },
  },
  {
    id: 'expiry',
    title: 'the entry expires, then 50 requests at once: the handler runs once more',
    async run({ open, runs }) {
      const site = await open(slow, 1_000)
      await site.get()
      await sleep(1_300)
      const before = runs()
      await Promise.all(Array.from({ length: 50 }, () => site.get()))
      const more = runs() - before
      return unless([[more > 1, `${more} runs`]], `${more} run`)
    },
  },
  {
    id: 'purge-during-run',
    title: 'a purge while the handler runs: later requests do not get the old page',
    async run({ open }) {
      let price = 'old'
      const site = await open(async () => {
        const read = price
        await sleep(SLOW_MS)
        return { body: { price: read } }
      })
      const running = site.get()
      await sleep(SLOW_MS / 2)
      price = 'new'
      await site.purge()
      await running
      await sleep(SETTLED_MS)
      const { body } = await site.get()
      return String(body).includes('new') ? ok() : wrong('the next request got the old page')
    },
  },
  {
    id: 'redis-frozen',
    title: 'Redis freezes: a request for a cold page gets its response within 2 s',
    async run({ open, redisPid }) {
      const site = await open(() => ({ body: { ok: true } }))
      await sleep(SETTLED_MS)
      process.kill(redisPid, 'SIGSTOP')
      const { status, ms } = await site.get({ timeoutMs: 2_000 })
      return status === 200 ? ok(`${Math.round(ms)} ms`) : wrong('no response in 2 s')
    },
  },
]
