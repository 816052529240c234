// Runs the demo: the queue, the database, four worker processes, and the two faults. It prints each
// step. Called by main.ts.

import { serve } from './calls.ts'
import { createFaults } from './faults.ts'
import { addJobs, type Query, readJobs } from './jobs.ts'
import { createLockServices, type LockServices } from './lock-service.ts'
import { sentence, type Tally } from './output.ts'
import { type Delivery, Queue } from './queue.ts'
import { startWorker, type WorkerEnvironment, type WorkerProcess } from './start-worker.ts'
import type { Step } from './work.ts'

export type CoordinatorServices = LockServices & {
  take(worker: string): Promise<Delivery | undefined>
  settle(delivery: Delivery, again: boolean): void
  /** The worker takes no more deliveries. */
  leave(worker: string): void
  query(sql: string, params: readonly unknown[]): Promise<unknown[]>
  /** Reports a step. Resolves when the worker may go on. */
  report(worker: string, step: Step, job: number, fence: bigint): Promise<void>
  trouble(worker: string, job: number, why: string): void
}

export interface RunOptions {
  readonly query: Query
  readonly redisUrl: string | undefined
  readonly fenced: boolean
  readonly leaseMs: number
  print(line: string): void
  /** Ends the run early. Each worker finishes its current job. */
  readonly signal: AbortSignal
}

/** A worker that has not ended after this time is killed. Its leases run out. */
const LONGEST_STOP_MS = 5_000
const WORKERS = ['worker 1', 'worker 2', 'worker 3', 'worker 4']
const JOBS = [1, 2, 3, 4, 5, 6, 7, 8]

/** Resolves when every worker has ended. */
export async function run(options: RunOptions): Promise<Tally> {
  const { query, print, signal } = options
  await addJobs(query, JOBS)
  const queue = new Queue(JOBS, 2)
  const refused = new Map<number, number>()
  const byName = new Map<string, WorkerProcess>()
  const injectFault = createFaults(print, signal)

  const services: CoordinatorServices = {
    ...createLockServices(),
    query,
    take: (worker) => queue.take(worker),
    settle: (delivery, again) => queue.settle(delivery, again),
    leave: (worker) => queue.dismiss(worker),
    trouble: (worker, job, why) => print(`${worker} could not do job ${job}: ${why}`),
    async report(worker, step, job, fence) {
      const line = sentence(worker, step, job, fence)
      if (line !== undefined) print(line)
      if (step === 'refused') refused.set(job, (refused.get(job) ?? 0) + 1)
      const started = byName.get(worker)
      if (started !== undefined) await injectFault(started, step, job)
    },
  }

  for (const name of WORKERS) {
    const started = startWorker(environment(name, options))
    byName.set(name, started)
    serve(started.port, services)
    void started.exited.then(() => {
      for (const job of queue.lose(name)) print(`job ${job} of ${name} will be delivered again`)
    })
  }
  const workers = [...byName.values()]
  signal.addEventListener('abort', () => {
    print('Stopping: each worker finishes its current job')
    for (const started of workers) started.stop()
    setTimeout(() => {
      for (const started of workers) started.kill()
    }, LONGEST_STOP_MS).unref()
  })
  await Promise.all(workers.map(({ exited }) => exited))
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
