// 600 waiters for one lock in ten processes: fairness, rising fences, and commands per lock.

import { describe, expect, it } from 'vitest'
import { countSent } from '../harness/command-trace.ts'
import { openAdmin, openLocks, startLockFleet } from '../harness/lock-fleet.ts'

describe('600 waiters in 10 processes', { timeout: 120_000 }, () => {
  it('hold the lock one at a time with rising fences, and none starves', async () => {
    await using fleet = await startLockFleet({ size: 10 })
    await fleet.warmUp()
    const commands = await countSent(fleet.redis, async () => {
      await fleet.crowd(60, { options: { waitMs: 60_000 } })
      const passages = await fleet.crowded()
      expect(passages.map(({ released }) => released)).toEqual(Array(600).fill('released'))
    })
    const inside = await fleet.passages()
    expect(inside).toHaveLength(600)
    console.log(`commands per lock, in all: ${(commands / 600).toFixed(3)}`)
    expect(commands / 600).toBeLessThanOrEqual(2.4)
    // A waiting process has its turn in every round. Twice that is allowed for late arrivals.
    const lastTurn = new Map<number, number>()
    let longest = 0
    for (const [turn, { member }] of inside.entries()) {
      longest = Math.max(longest, turn - (lastTurn.get(member) ?? turn))
      lastTurn.set(member, turn)
    }
    expect(longest).toBeLessThanOrEqual(20)
  })

  it('get the lock by hand-over for at most 1.2 commands each', async () => {
    await using fleet = await startLockFleet({ size: 10 })
    await fleet.warmUp()
    await using admin = openAdmin(fleet.redis)
    await using holder = openLocks(fleet.redis.url, { leaseMs: 60_000 })
    const lease = await holder.locks.acquire('job')
    await fleet.crowd(60, { options: { waitMs: 60_000 } })
    await admin.queued('job', 10)
    // Each process answers this after its earlier commands, so all of those were sent.
    await Promise.all(
      fleet.members.map((each) =>
        each.ask({ type: 'acquire', as: 'echo', key: `echo ${each.index}` }),
      ),
    )
    const commands = await countSent(fleet.redis, async () => {
      await lease.release()
      await fleet.crowded()
    })
    expect(await fleet.passages()).toHaveLength(600)
    console.log(`commands per hand-over: ${(commands / 600).toFixed(3)}`)
    expect(commands / 600).toBeLessThanOrEqual(1.2)
  })
})
