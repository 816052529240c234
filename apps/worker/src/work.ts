// Work on one delivery: take the job's lock, do the job, and write the result under the fence.

import { setTimeout as sleep } from 'node:timers/promises'
import type { Lease, Locks } from '@stampede/locks'
import type { Jobs } from './jobs.ts'
import type { Delivery } from './queue.ts'

/** This job takes longer than its lease, so its lease is renewed. */
export const LONG_JOB = 6

/** Half of the time that a job takes. */
export function halfMs(job: number, leaseMs: number): number {
  return leaseMs * (job === LONG_JOB ? 0.8 : 0.15)
}

/** A step that the worker reports to the coordinator. */
export type Step =
  /** Another worker has the lock. */
  | 'waits'
  /** The worker has the lock, and the job is not done. */
  | 'begins'
  /** Half of the work is done. */
  | 'halfway'
  /**
   * The worker has checked its lease for the last time. From here on only the row can refuse the
   * write.
   */
  | 'writes'
  | 'did'
  /** The worker has the lock, and the job is done already. */
  | 'skips'
  /** The row refused the write, because it has seen a newer fence. */
  | 'refused'
  /** The worker noticed in time that its lease was over, and stopped. */
  | 'stops'

export interface WorkContext {
  readonly name: string
  readonly locks: Locks
  readonly jobs: Jobs
  readonly leaseMs: number
  /** Reports a step. Resolves when the worker may go on. */
  report(step: Step, job: number, fence: bigint): Promise<void>
}

/** Resolves with false if the job must be delivered again. */
export async function work({ job }: Delivery, context: WorkContext): Promise<boolean> {
  await using lease = await takeLock(job, context)
  const { fence, signal } = lease
  const report = (step: Step) => context.report(step, job, fence)
  const state = await context.jobs.begin(job, fence)
  if (state !== 'open') {
    await report(state === 'done' ? 'skips' : 'refused')
    return state === 'done'
  }
  await report('begins')
  try {
    await sleep(halfMs(job, context.leaseMs), undefined, { signal })
    await report('halfway')
    await sleep(halfMs(job, context.leaseMs), undefined, { signal })
    lease.assertHeld()
  } catch {
    await report('stops')
    return false
  }
  await report('writes')
  const accepted = await context.jobs.finish(job, fence, context.name)
  await report(accepted ? 'did' : 'refused')
  return true
}

async function takeLock(job: number, { locks, report }: WorkContext): Promise<Lease> {
  const key = `job:${job}`
  const lease = await locks.tryAcquire(key)
  if (lease !== null) return lease
  await report('waits', job, 0n)
  return locks.acquire(key)
}
