// One worker as a process: takes deliveries until there are no more. Started by start-worker.ts.

import { setTimeout as sleep } from 'node:timers/promises'
import { createLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { createCaller, type Port } from './calls.ts'
import type { CoordinatorServices } from './coordinator.ts'
import { createJobs } from './jobs.ts'
import { remoteLockStore } from './lock-service.ts'
import { work } from './work.ts'

const { WORKER_NAME: name = '', REDIS_URL, LOCK_PREFIX = '', LEASE_MS, FENCE } = process.env

const port: Port = {
  send: (message) => void process.send?.(message),
  onMessage: (listener) => void process.on('message', listener),
}
// Without its coordinator a worker has no work, so it ends.
process.on('disconnect', () => process.exit())

const call = createCaller<CoordinatorServices>(port)
const redis = REDIS_URL ? new Redis(REDIS_URL, { lazyConnect: true }) : undefined
const leaseMs = Number(LEASE_MS)
const locks =
  redis === undefined
    ? createLocks({ store: remoteLockStore(call), leaseMs, wait: 'poll' })
    : createLocks({ store: redisStore(redis, { prefix: LOCK_PREFIX }), leaseMs })

const context = {
  name,
  locks,
  jobs: createJobs((sql, params) => call('query', sql, params) as Promise<never[]>, {
    fenced: FENCE !== 'off',
  }),
  leaseMs,
  report: (step: Parameters<CoordinatorServices['report']>[1], job: number, fence: bigint) =>
    call('report', name, step, job, fence),
}

let stopping = false
// A terminal sends SIGINT to all of its processes at once.
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.on(signal, () => {
    stopping = true
    call('leave', name).catch(() => {})
  })
}

while (!stopping) {
  const delivery = await call('take', name)
  if (delivery === undefined) break
  try {
    await call('settle', delivery, !(await work(delivery, context)))
  } catch (error) {
    // The lock was not available. Another worker may get it, or this one later.
    await call('trouble', name, delivery.job, error instanceof Error ? error.message : `${error}`)
    await sleep(leaseMs / 4)
    await call('settle', delivery, true)
  }
}
await locks.close()
process.disconnect()
