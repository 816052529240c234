import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { createEventBatch, type EmittedEvent } from './event-batch.ts'
import type { ProcessEvent } from './messages.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const event = (type: string, fields: object = {}) =>
  ({ type, key: 'GET /a', internalKey: 'x', ...fields }) as EmittedEvent

it('joins equal hits, keeps other events in order, and sends one batch', () => {
  const sent: (readonly ProcessEvent[])[] = []
  const add = createEventBatch((events) => sent.push(events))
  add(event('lease.granted', { fence: 7n }))
  for (let i = 0; i < 3; i++) add(event('entry.hit', { tier: 'l1', stale: false }))
  add(event('entry.hit', { tier: 'l1', stale: true }))
  for (let i = 0; i < 2; i++)
    add(event('store.failed', { operation: 'lookup', error: new Error() }))
  expect(sent).toEqual([])
  vi.runAllTimers()
  expect(sent).toHaveLength(1)
  expect(sent[0]?.map(({ type, count, fields }) => [type, count, fields])).toEqual([
    ['lease.granted', 1, { fence: '7' }],
    ['entry.hit', 3, { stale: 'false', tier: 'l1' }],
    ['entry.hit', 1, { stale: 'true', tier: 'l1' }],
    ['store.failed', 1, { operation: 'lookup' }],
    ['store.failed', 1, { operation: 'lookup' }],
  ])
})
