// Tests of the option `waitUntil` of createStampede. A transcript has the tasks that the option
// gets, the results of the callers, and the commands that the store replied to, in order.

import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { ScriptedOrigin, settled } from './testing/index.ts'
import { begin, clock, create, end, transcript } from './testing/resolve-bench.ts'
import { FaultyStore, Gate } from './testing/store-doubles.ts'

beforeEach(begin)
afterEach(end)

function setUp() {
  const store = new FaultyStore()
  let tasks = 0
  const waitUntil = (task: Promise<unknown>): void => {
    const name = `task ${++tasks}`
    transcript.note(`${name} begins`)
    void task.then(() => transcript.note(`${name} ends`))
  }
  const stampede = create(store, { waitUntil })
  const origin = new ScriptedOrigin<string>()
  const get = async () => {
    const options = { ttlMs: 1_000, staleWhileRevalidateMs: 60_000 }
    transcript.note(`caller gets ${await stampede.getOrSet('k', origin.factory, options)}`)
  }
  return { store, stampede, origin, get }
}

it('gets a fill until its commit is acknowledged, which is after the caller has its value', async () => {
  const { store, origin, get } = setUp()
  const gate = new Gate()
  store.next('commit', gate.delayReply)
  void get()
  await settled()
  await origin.run(0).resolve('v1')
  transcript.note('the store replies')
  gate.open()
  await settled()
  expect(transcript.take()).toEqual([
    'task 1 begins',
    'lease.granted',
    'fill.started',
    'caller gets v1',
    'the store replies',
    'fill.committed',
    'task 1 ends',
  ])
})

it('gets a refresh of a stale entry, and no task for a fresh entry', async () => {
  const { origin, get } = setUp()
  void get()
  await settled()
  await origin.run(0).resolve('v1')
  transcript.take()
  await get()
  expect(transcript.take()).toEqual(['hit l1', 'caller gets v1'])
  await clock.advance(1_001)
  await get()
  await settled()
  transcript.note('the response is sent')
  await origin.run(1).resolve('v2')
  expect(transcript.take()).toEqual([
    'task 2 begins',
    'hit l1 stale',
    'caller gets v1',
    'lease.granted',
    'fill.started behind',
    'the response is sent',
    'fill.committed',
    'task 2 ends',
  ])
})

it('gets a fill that fails as a task that ends', async () => {
  const { stampede } = setUp()
  const failing = () => Promise.reject(new Error('the database is down'))
  await expect(stampede.getOrSet('k', failing, { ttlMs: 1_000 })).rejects.toThrow('database')
  await settled()
  expect(transcript.take()).toEqual([
    'task 1 begins',
    'lease.granted',
    'fill.started',
    'fill.failed',
    'task 1 ends',
  ])
})

it('becomes a process warning if it throws, and the caller gets its value', async () => {
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  const waitUntil = (): void => {
    throw new Error('there is no request')
  }
  const stampede = create(undefined, { waitUntil })
  expect(await stampede.getOrSet('k', () => 1, { ttlMs: 1_000 })).toBe(1)
  expect(warned.mock.calls).toEqual([['there is no request', 'StampedeListenerWarning']])
  warned.mockRestore()
})
