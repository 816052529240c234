// Many callers of one cold key in one process: node waiters-member.js <peer id> <Redis URL>.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { peers } from '../../torture/peers.ts'
import { answers } from '../lib/child.ts'

export interface WaitersSeen {
  readonly originCalls: number
  /** From the end of the origin until the last caller has the value. */
  readonly settledMs: number
  /** The longest time in which nothing else could run. */
  readonly blockedMs: number
}

const [, , id, redisUrl = ''] = process.argv
const peer = peers.find((each) => each.id === id)
if (peer === undefined) throw new Error(`no cache named ${id}`)
const { open } = await peer.load()

let originCalls = 0
let asked = 0
let endOrigin: (value: string) => void = () => {}
const load = (): Promise<string> => {
  originCalls += 1
  return new Promise((resolve) => {
    endOrigin = resolve
  })
}
const cache = await open({ redisUrl, ttlMs: 60_000, staleMs: 0, tags: [], client: 'plain', load })

answers({ wait })

async function wait(waiters: number): Promise<WaitersSeen> {
  originCalls = 0
  const key = `waiters:${asked++}`
  const calls = Array.from({ length: waiters }, () => cache.get(key))
  // Under way by then, whatever is asked of Redis before.
  while (originCalls === 0) await sleep(5)
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  await sleep(50)
  delay.reset()
  const since = performance.now()
  endOrigin('the value')
  const values = new Set(await Promise.all(calls))
  const settledMs = performance.now() - since
  await sleep(20)
  delay.disable()
  if (values.size !== 1 || !values.has('the value')) throw new Error(`got ${[...values]}`)
  // What is recorded is the whole of a turn, of which a millisecond was wanted.
  return { originCalls, settledMs, blockedMs: Math.max(0, delay.max / 1e6 - 1) }
}
