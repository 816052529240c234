// Workers as objects in one process: their calls to the coordinator, the locks and PostgreSQL are real, and a worker
// stands still while the test does not let it go on.

import { PGlite } from '@electric-sql/pglite'
import { ManualClock } from '@stampede/core/testing'
import { createLocks } from '@stampede/locks'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createCaller, serve } from './calls.ts'
import { addJobs, createJobs, type Query, readJobs, SCHEMA } from './jobs.ts'
import { createLockServices, type LockServices, remoteLockStore } from './lock-service.ts'
import { portPair } from './testing/port-pair.ts'
import { type Desk, type Step, work } from './work.ts'

const LEASE_MS = 60

let postgres: PGlite
beforeAll(async () => {
  postgres = await PGlite.create()
  await postgres.exec(SCHEMA)
})
afterAll(() => postgres.close())

const query: Query = async <Row>(sql: string, params: readonly unknown[]) =>
  (await postgres.query<Row>(sql, [...params])).rows

let lastJob = 0

async function office({ fenced = true } = {}) {
  const clock = new ManualClock()
  const services = createLockServices(clock)
  const told: string[] = []
  const gates = new Map<string, Promise<void>>()
  const still = new Set<string>()
  const job = ++lastJob
  await addJobs(query, [job])

  const hire = (name: string): Desk => {
    const [here, there] = portPair()
    serve<LockServices>(there, {
      ...services,
      async renew(grants, leaseMs) {
        if (still.has(name)) throw new Error('nothing comes from there')
        return services.renew(grants, leaseMs)
      },
    })
    const store = remoteLockStore(createCaller<LockServices>(here))
    return {
      name,
      leaseMs: LEASE_MS,
      locks: createLocks({ store, wait: 'poll', leaseMs: LEASE_MS, clock }),
      jobs: createJobs(query, { fenced }),
      async tell(step: Step) {
        told.push(`${name} ${step}`)
        await gates.get(`${name} ${step}`)
      },
    }
  }
  const seen = (line: string) => expect.poll(() => told).toContain(line)
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
  /** From now on nothing is renewed, as if its process were stopped; time passes until its lease is over. */
  const standStill = async (name: string) => {
    still.add(name)
    await clock.advance(2 * LEASE_MS)
  }
  const row = async () => (await readJobs(query)).find(({ id }) => id === job)
  return {
    clock,
    told,
    hire,
    seen,
    holdAt,
    standStill,
    row,
    delivery: (id: number) => ({ id, job }),
  }
}

describe('a worker', () => {
  it('does a job, and the next to be given it finds it done', async () => {
    const { hire, delivery, told, row } = await office()
    expect(await work(delivery(1), hire('a'))).toBe(true)
    expect(await work(delivery(2), hire('b'))).toBe(true)
    expect(told).toEqual(['a begins', 'a halfway', 'a writes', 'a did', 'b skips'])
    expect(await row()).toMatchObject({ done: 1, doneBy: 'a' })
  })

  it('waits while another has the job, and does nothing after it', async () => {
    const { clock, hire, delivery, told, seen, holdAt, row } = await office()
    const goOn = holdAt('a halfway')
    const first = work(delivery(1), hire('a'))
    await seen('a halfway')
    const second = work(delivery(2), hire('b'))
    await seen('b waits')
    goOn()
    await first
    await clock.advance(200)
    await second
    expect(told.filter((line) => line.startsWith('b'))).toEqual(['b waits', 'b skips'])
    expect(await row()).toMatchObject({ done: 1, doneBy: 'a' })
  })

  it('stops when it notices that its lease is over, and asks for another delivery', async () => {
    const { hire, delivery, told, seen, holdAt, standStill, row } = await office()
    const goOn = holdAt('a halfway')
    const first = work(delivery(1), hire('a'))
    await seen('a halfway')
    await standStill('a')
    goOn()
    expect(await first).toBe(false)
    expect(told.at(-1)).toBe('a stops')
    expect(await row()).toMatchObject({ done: 0 })
  })
})

describe.each([
  { fenced: true, last: 'a refused', done: 1, doneBy: 'b' },
  { fenced: false, last: 'a did', done: 2, doneBy: 'a' },
])('a late writer, with fenced: $fenced', ({ fenced, last, done, doneBy }) => {
  it(`ends with "${last}", and the job has ${done} result(s)`, async () => {
    const { hire, delivery, told, seen, holdAt, standStill, row } = await office({ fenced })
    const goOn = holdAt('a writes')
    const late = work(delivery(1), hire('a'))
    await seen('a writes')
    await standStill('a')
    expect(await work(delivery(2), hire('b'))).toBe(true)
    goOn()
    await late
    expect(told).toContain('b did')
    expect(told.at(-1)).toBe(last)
    expect(await row()).toMatchObject({ done, doneBy })
  })

  it('is stopped, or not, even before the newer holder has written', async () => {
    const { hire, delivery, told, seen, holdAt, standStill, row } = await office({ fenced })
    const goOn = holdAt('a writes')
    const late = work(delivery(1), hire('a'))
    await seen('a writes')
    await standStill('a')
    const goOnB = holdAt('b begins')
    const newer = work(delivery(2), hire('b'))
    await seen('b begins')
    goOn()
    await late
    expect(told.at(-1)).toBe(last)
    goOnB()
    await newer
    expect(await row()).toMatchObject({ done, doneBy: 'b' })
  })
})
