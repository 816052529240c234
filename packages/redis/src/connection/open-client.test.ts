import { EventEmitter } from 'node:events'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { connect } from './open-client.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

class Duplicate extends EventEmitter {
  status = 'connecting'
  connects = 0
  async connect(): Promise<void> {
    this.connects += 1
    throw new Error('refused')
  }
  disconnect(): void {
    this.emit('end')
  }
}

it('a client connects again after ioredis gave up, but not after the client was closed', () => {
  const made: Duplicate[] = []
  const redis = {
    isCluster: false,
    duplicate() {
      made.push(new Duplicate())
      return made.at(-1)
    },
  }
  const { subscriber } = connect(redis, 250)
  const [commands, listening] = made as [Duplicate, Duplicate]
  for (const each of made) each.emit('end')
  vi.advanceTimersByTime(1_000)
  expect([commands.connects, listening.connects]).toEqual([2, 2])
  subscriber.disconnect()
  commands.emit('end')
  vi.advanceTimersByTime(1_000)
  expect([commands.connects, listening.connects]).toEqual([3, 2])
})

it('a silent node of a Cluster leaves time for another one in the first second', () => {
  const slotsRefreshTimeout = (budgetMs: number) => {
    const duplicate = vi.fn((..._: unknown[]) => Object.assign(new Duplicate(), { slots: [] }))
    connect({ isCluster: true, duplicate }, budgetMs)
    return duplicate.mock.lastCall?.[1]
  }
  expect(slotsRefreshTimeout(250)).toMatchObject({ slotsRefreshTimeout: 750 })
  expect(slotsRefreshTimeout(2_000)).toMatchObject({ slotsRefreshTimeout: 2_000 })
})
