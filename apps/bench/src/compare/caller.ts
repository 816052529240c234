// The process of one data cache.
import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import { product } from '../lib/product.ts'
import { memoryPeers, redisPeers } from './data-peers.ts'

export interface CallOrder {
  readonly durationMs: number
  /** Callers that run at the same time. Each makes one call at a time. */
  readonly callers: number
  /** Number of keys that the calls go through in turn. 0: every call is for a new key. */
  readonly keys: number
}

const CALLS_A_TURN = 64

export async function start(tier: 'memory' | 'redis', id: string, redisUrl: string) {
  const peer = (tier === 'memory' ? memoryPeers : redisPeers).find((each) => each.id === id)
  if (peer === undefined) throw new Error(`no cache named ${id}`)
  let originCalls = 0
  let next = 0
  const get = await peer.create(() => {
    originCalls += 1
    return product
  }, redisUrl)

  async function oneCaller({ keys }: CallOrder, end: number): Promise<number> {
    for (let calls = 0; ; calls++) {
      // Reading the clock costs as much as a fast cache, so it is read once per batch. The event
      // loop turns between batches.
      if (calls % CALLS_A_TURN === 0) {
        if (performance.now() >= end) return calls
        await turn()
      }
      const number = next++
      await get(keys > 0 ? `${id}:${number % keys}` : `${id}:new:${number}`)
    }
  }

  return {
    /** Fills the keys, and checks each value against the origin. A value may come back as bytes. */
    async fill(keys: number): Promise<void> {
      for (let i = 0; i < 2 * keys; i++) {
        const value = await get(`${id}:${i % keys}`)
        const read = value instanceof Uint8Array ? JSON.parse(Buffer.from(value).toString()) : value
        assert.deepEqual(read, product)
      }
    },
    async call(order: CallOrder) {
      const before = { cpu: process.cpuUsage(), originCalls, at: performance.now() }
      const end = before.at + order.durationMs
      const callers = Array.from({ length: order.callers }, () => oneCaller(order, end))
      const counts = await Promise.all(callers)
      const { user, system } = process.cpuUsage(before.cpu)
      return {
        calls: counts.reduce((sum, count) => sum + count, 0),
        durationMs: performance.now() - before.at,
        cpuMicros: user + system,
        originCalls: originCalls - before.originCalls,
      }
    },
  }
}
