// One process of a fleet that asks for a cold key. Usage: node fleet-member.js <peer id> <Redis
// URL>.
import { setTimeout as sleep } from 'node:timers/promises'
import { peers } from '../../torture/peers.ts'
import { offer } from '../lib/child.ts'
import { FLEET_ORIGIN_MS } from './sizes.ts'

export interface FleetMemberSeen {
  readonly originCalls: number
  readonly slowestMs: number
}

const CALLERS = 25

const [, , id, redisUrl = ''] = process.argv
const peer = peers.find((each) => each.id === id)
if (peer === undefined) throw new Error(`no cache named ${id}`)
const { open } = await peer.load()
let originCalls = 0
const load = async (): Promise<string> => {
  originCalls += 1
  await sleep(FLEET_ORIGIN_MS)
  return 'the value'
}
const cache = await open({ redisUrl, ttlMs: 60_000, staleMs: 0, tags: [], client: 'plain', load })

offer({
  async ask(key: string): Promise<FleetMemberSeen> {
    originCalls = 0
    const since = performance.now()
    await Promise.all(Array.from({ length: CALLERS }, () => cache.get(key)))
    return { originCalls, slowestMs: performance.now() - since }
  },
})
