// Tests of workers as objects in one process. Calls, locks and PostgreSQL are real, and the test
// can hold a worker at a step.

import type { PGlite } from '@electric-sql/pglite'
import { ManualClock } from '@stampede/core/testing'
import { createLocks } from '@stampede/locks'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startPostgres } from '../../shop/src/postgres.ts'
import { createCaller, serve } from './calls.ts'
import { addJobs, createJobs, type Query, readJobs, SCHEMA } from './jobs.ts'
import { createLockServices, type LockServices, remoteLockStore } from './lock-service.ts'
import { portPair } from './testing/port-pair.ts'
import { type Step, type WorkContext, work } from './work.ts'

const LEASE_MS = 60

let postgres: PGlite
beforeAll(async () => {
  postgres = await startPostgres()
  await postgres.exec(SCHEMA)
})
afterAll(() => postgres.close())

const query: Query = async <Row>(sql: string, params: readonly unknown[]) =>
  (await postgres.query<Row>(sql, [...params])).rows

let lastJob = 0

async function startCoordinator({ fenced = true } = {}) {
  const clock = new ManualClock()
  const services = createLockServices(clock)
  const steps: string[] = []
  const gates = new Map<string, Promise<void>>()
  const frozen = new Set<string>()
  const job = ++lastJob
  await addJobs(query, [job])

  const createContext = (name: string): WorkContext => {
    const [here, there] = portPair()
    serve<LockServices>(there, {
      ...services,
      async renew(grants, leaseMs) {
        if (frozen.has(name)) throw new Error('no reply from the coordinator')
        return services.renew(grants, leaseMs)
      },
    })
    const store = remoteLockStore(createCaller<LockServices>(here))
    return {
      name,
      leaseMs: LEASE_MS,
      locks: createLocks({ store, wait: 'poll', leaseMs: LEASE_MS, clock }),
      jobs: createJobs(query, { fenced }),
      async report(step: Step) {
        steps.push(`${name} ${step}`)
        await gates.get(`${name} ${step}`)
      },
    }
  }
  const seen = (line: string) => expect.poll(() => steps).toContain(line)
  const holdAt = (line: string): (() => void) => {
    let open = () => {}
    gates.set(
      line,
      new Promise((resolve) => {
        open = resolve
      }),
    )
    return open
  }
  /**
   * From now on renewals of this worker fail, as if its process were paused. Then its lease runs
   * out.
   */
  const freeze = async (name: string) => {
    frozen.add(name)
    await clock.advance(2 * LEASE_MS)
  }
  const row = async () => (await readJobs(query)).find(({ id }) => id === job)
  return {
    clock,
    steps,
    createContext,
    seen,
    holdAt,
    freeze,
    row,
    delivery: (id: number) => ({ id, job }),
  }
}

describe('a worker', () => {
  it('does a job, and a later delivery finds that the job is done', async () => {
    const { createContext, delivery, steps, row } = await startCoordinator()
    expect(await work(delivery(1), createContext('a'))).toBe(true)
    expect(await work(delivery(2), createContext('b'))).toBe(true)
    expect(steps).toEqual(['a begins', 'a halfway', 'a writes', 'a did', 'b skips'])
    expect(await row()).toMatchObject({ done: 1, doneBy: 'a' })
  })

  it('waits while another worker has the job, and does nothing afterwards', async () => {
    const { clock, createContext, delivery, steps, seen, holdAt, row } = await startCoordinator()
    const goOn = holdAt('a halfway')
    const first = work(delivery(1), createContext('a'))
    await seen('a halfway')
    const second = work(delivery(2), createContext('b'))
    await seen('b waits')
    goOn()
    await first
    await clock.advance(200)
    await second
    expect(steps.filter((line) => line.startsWith('b'))).toEqual(['b waits', 'b skips'])
    expect(await row()).toMatchObject({ done: 1, doneBy: 'a' })
  })

  it('stops if its lease is over, and asks for another delivery', async () => {
    const { createContext, delivery, steps, seen, holdAt, freeze, row } = await startCoordinator()
    const goOn = holdAt('a halfway')
    const first = work(delivery(1), createContext('a'))
    await seen('a halfway')
    await freeze('a')
    goOn()
    expect(await first).toBe(false)
    expect(steps.at(-1)).toBe('a stops')
    expect(await row()).toMatchObject({ done: 0 })
  })
})

describe.each([
  { fenced: true, last: 'a refused', done: 1, doneBy: 'b' },
  { fenced: false, last: 'a did', done: 2, doneBy: 'a' },
])('a late writer, with fenced: $fenced', ({ fenced, last, done, doneBy }) => {
  it(`ends with "${last}", and the job has ${done} result(s)`, async () => {
    const { createContext, delivery, steps, seen, holdAt, freeze, row } = await startCoordinator({
      fenced,
    })
    const goOn = holdAt('a writes')
    const late = work(delivery(1), createContext('a'))
    await seen('a writes')
    await freeze('a')
    expect(await work(delivery(2), createContext('b'))).toBe(true)
    goOn()
    await late
    expect(steps).toContain('b did')
    expect(steps.at(-1)).toBe(last)
    expect(await row()).toMatchObject({ done, doneBy })
  })

  it('is refused only with the fence, even before the newer holder has written', async () => {
    const { createContext, delivery, steps, seen, holdAt, freeze, row } = await startCoordinator({
      fenced,
    })
    const goOn = holdAt('a writes')
    const late = work(delivery(1), createContext('a'))
    await seen('a writes')
    await freeze('a')
    const goOnB = holdAt('b begins')
    const newer = work(delivery(2), createContext('b'))
    await seen('b begins')
    goOn()
    await late
    expect(steps.at(-1)).toBe(last)
    goOnB()
    await newer
    expect(await row()).toMatchObject({ done, doneBy: 'b' })
  })
})
