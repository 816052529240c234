// Measures the cost of one call of a data cache.
import { startChild } from '../lib/child.ts'
import { type Contestant, type Row, runRows } from '../lib/rows.ts'
import type { DataPeer } from './data-peers.ts'

export interface CallPlan {
  readonly tier: 'memory' | 'redis'
  readonly rows: readonly DataPeer[]
  readonly callers: number
  /** Every call is for a new key, which neither memory nor Redis has. */
  readonly isEachNew: boolean
  readonly rounds: number
  readonly roundMs: number
  readonly warmUpMs: number
  readonly redisUrl: string
}

const KEYS = 1_000

export const runCalls = (plan: CallPlan): Promise<Row<DataPeer>[]> =>
  runRows({ ...plan, title: plan.tier, setUp: (row) => startCaller(row, plan) })

async function startCaller({ id }: DataPeer, plan: CallPlan): Promise<Contestant> {
  const { tier, callers, isEachNew, redisUrl } = plan
  const args: [typeof tier, string, string] = [tier, id, redisUrl]
  const child = await startChild<typeof import('./caller.ts')>('compare/caller', args)
  await child.call.fill(KEYS)
  const call = (durationMs: number) =>
    child.call.call({ callers, durationMs, keys: isEachNew ? 0 : KEYS })
  return {
    warmUp: () => call(plan.warmUpMs),
    async measure() {
      const { calls, originCalls, cpuMicros, durationMs } = await call(plan.roundMs)
      if (originCalls !== (isEachNew ? calls : 0))
        throw new Error(`${id}: ${originCalls} origin calls in ${calls} calls`)
      return { rate: (calls * 1_000) / durationMs, cpuMicros: cpuMicros / calls }
    },
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  }
}
