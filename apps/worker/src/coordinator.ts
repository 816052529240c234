// Runs the demo: the queue, the database, four worker processes, and the two things that happen to them. It tells
// the story as it goes. Called by main.ts.

import { serve } from './calls.ts'
import { type Member, startMember, type WorkerEnvironment } from './crew.ts'
import { createFaults } from './faults.ts'
import { addJobs, type Query, readJobs } from './jobs.ts'
import { createLockServices, type LockServices } from './lock-service.ts'
import { type Delivery, Queue } from './queue.ts'
import { sentence, type Tally } from './story.ts'
import type { Step } from './work.ts'

export type CoordinatorServices = LockServices & {
  take(worker: string): Promise<Delivery | undefined>
  settle(delivery: Delivery, again: boolean): void
  /** The worker takes no more. */
  leave(worker: string): void
  query(sql: string, params: readonly unknown[]): Promise<unknown[]>
  /** Resolves when the worker may go on. */
  tell(worker: string, step: Step, job: number, fence: bigint): Promise<void>
  trouble(worker: string, job: number, why: string): void
}

export interface RunOptions {
  readonly query: Query
  readonly redisUrl: string | undefined
  readonly fenced: boolean
  readonly leaseMs: number
  print(line: string): void
  /** Ends the run early: each worker finishes what it has at hand. */
  readonly signal: AbortSignal
}

/** After this a worker that does not end is killed; its leases run out. */
const LONGEST_STOP_MS = 5_000
const WORKERS = ['worker 1', 'worker 2', 'worker 3', 'worker 4']
const JOBS = [1, 2, 3, 4, 5, 6, 7, 8]

/** Resolves when every worker has ended. */
export async function run(options: RunOptions): Promise<Tally> {
  const { query, print, signal } = options
  await addJobs(query, JOBS)
  const queue = new Queue(JOBS, 2)
  const refused = new Map<number, number>()
  const crew = new Map<string, Member>()
  const strike = createFaults(print, signal)

  const services: CoordinatorServices = {
    ...createLockServices(),
    query,
    take: (worker) => queue.take(worker),
    settle: (delivery, again) => queue.settle(delivery, again),
    leave: (worker) => queue.dismiss(worker),
    trouble: (worker, job, why) => print(`${worker} could not do job ${job}: ${why}`),
    async tell(worker, step, job, fence) {
      const line = sentence(worker, step, job, fence)
      if (line !== undefined) print(line)
      if (step === 'refused') refused.set(job, (refused.get(job) ?? 0) + 1)
      const member = crew.get(worker)
      if (member !== undefined) await strike(member, step, job)
    },
  }

  for (const name of WORKERS) {
    const member = startMember(environment(name, options))
    crew.set(name, member)
    serve(member.port, services)
    void member.exited.then(() => {
      for (const job of queue.lose(name)) print(`job ${job} of ${name} is delivered again`)
    })
  }
  const everybody = [...crew.values()]
  signal.addEventListener('abort', () => {
    print('Stopping: each worker finishes its job')
    for (const member of everybody) member.stop()
    setTimeout(() => {
      for (const member of everybody) member.kill()
    }, LONGEST_STOP_MS).unref()
  })
  await Promise.all(everybody.map(({ exited }) => exited))
  return { jobs: await readJobs(query), deliveries: queue.deliveries, refused }
}

function environment(name: string, { redisUrl, leaseMs, fenced }: RunOptions): WorkerEnvironment {
  return {
    WORKER_NAME: name,
    REDIS_URL: redisUrl ?? '',
    LOCK_PREFIX: `worker-demo:${process.pid}`,
    LEASE_MS: String(leaseMs),
    FENCE: fenced ? 'on' : 'off',
  }
}
