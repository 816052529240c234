// What a worker does with one delivery: take the job's lock, work, and write the result under the fence.

import { setTimeout as sleep } from 'node:timers/promises'
import type { Lease, Locks } from '@stampede/locks'
import type { Jobs } from './jobs.ts'
import type { Delivery } from './queue.ts'

/** This job takes longer than its lease: its lock is kept by renewal. */
export const LONG_JOB = 6

/** How long half of a job takes. */
export function halfMs(job: number, leaseMs: number): number {
  return leaseMs * (job === LONG_JOB ? 0.8 : 0.15)
}

/** What the coordinator is told, and the story is made of. */
export type Step =
  /** Another worker has the lock. */
  | 'waits'
  /** Has the lock; the job is still to do. */
  | 'begins'
  /** Half of the work is done. */
  | 'halfway'
  /** Has looked at its lease for the last time: nothing can stop the write now but the row. */
  | 'writes'
  | 'did'
  /** Had the lock, and found the job done. */
  | 'skips'
  /** The row refused its write: it had seen a newer fence. */
  | 'refused'
  /** Noticed in time that its lease was over, and stopped. */
  | 'stops'

export interface Desk {
  readonly name: string
  readonly locks: Locks
  readonly jobs: Jobs
  readonly leaseMs: number
  /** Resolves when the worker may go on. */
  tell(step: Step, job: number, fence: bigint): Promise<void>
}

/** Resolves with false if the job has to be delivered again. */
export async function work({ job }: Delivery, desk: Desk): Promise<boolean> {
  await using lease = await takeLock(job, desk)
  const { fence, signal } = lease
  const tell = (step: Step) => desk.tell(step, job, fence)
  const state = await desk.jobs.begin(job, fence)
  if (state !== 'open') {
    await tell(state === 'done' ? 'skips' : 'refused')
    return state === 'done'
  }
  await tell('begins')
  try {
    await sleep(halfMs(job, desk.leaseMs), undefined, { signal })
    await tell('halfway')
    await sleep(halfMs(job, desk.leaseMs), undefined, { signal })
    lease.assertHeld()
  } catch {
    await tell('stops')
    return false
  }
  await tell('writes')
  const accepted = await desk.jobs.finish(job, fence, desk.name)
  await tell(accepted ? 'did' : 'refused')
  return true
}

async function takeLock(job: number, { locks, tell }: Desk): Promise<Lease> {
  const key = `job:${job}`
  const lease = await locks.tryAcquire(key)
  if (lease !== null) return lease
  await tell('waits', job, 0n)
  return locks.acquire(key)
}
