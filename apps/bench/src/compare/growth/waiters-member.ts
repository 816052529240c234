// One process with many callers of a cold key. Usage: node waiters-member.js <peer id> <Redis URL>.
import { setTimeout as sleep } from 'node:timers/promises'
import { peers } from '../../torture/peers.ts'
import { offer } from '../lib/child.ts'
import { blockedMs, watchBlocking } from './blocked.ts'

export interface WaitersSeen {
  readonly originCalls: number
  /** Time from the end of the origin until the last caller has the value. */
  readonly settledMs: number
  /** The longest time for which the event loop was blocked. */
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

offer({ wait })

async function wait(waiters: number): Promise<WaitersSeen> {
  originCalls = 0
  const key = `waiters:${asked++}`
  const calls = Array.from({ length: waiters }, () => cache.get(key))
  // Some caches ask Redis before they call the origin. From here on, the origin call is running.
  while (originCalls === 0) await sleep(5)
  await watchBlocking()
  const since = performance.now()
  endOrigin('the value')
  const values = new Set(await Promise.all(calls))
  const settledMs = performance.now() - since
  const blocked = await blockedMs()
  if (values.size !== 1 || !values.has('the value')) throw new Error(`got ${[...values]}`)
  return { originCalls, settledMs, blockedMs: blocked }
}
