import { EventEmitter } from 'node:events'
import { systemClock } from '@stampede/core/store'
import { expect, it, vi } from 'vitest'
import { names } from '../protocol/keys.ts'
import type { RedisClient } from './connection.ts'
import { RedisLink } from './link.ts'

/** A connection whose subscription is pending until the connection is closed. */
class FakeConnection extends EventEmitter {
  status = 'connecting'
  #reject: (error: Error) => void = () => {}

  subscribe(): Promise<unknown> {
    return new Promise((_, reject) => {
      this.#reject = reject
    })
  }

  disconnect(): void {
    this.status = 'end'
    this.#reject(new Error('Connection is closed.'))
  }
}

it('withBudget() handles the rejection of its promise after the store was closed', async () => {
  const redis = { isCluster: false, options: {}, duplicate: () => new FakeConnection() }
  const link = new RedisLink(redis as unknown as RedisClient, names('t'), 250)
  const promise = Promise.reject(new Error('closed'))
  // Without a handler, Node would end the process. Vitest reports the rejection.
  await expect(link.withBudget({ leftMs: 250 }, 'lookup', promise)).rejects.toThrow('redis run')
  await new Promise((resolve) => setImmediate(resolve))
})

it('a command that waits for the connections is not sent after the store was closed', async () => {
  const made: FakeConnection[] = []
  const duplicate = () => {
    made.push(new FakeConnection())
    return made.at(-1)
  }
  const redis = { isCluster: false, options: {}, duplicate } as unknown as RedisClient
  const link = new RedisLink(redis, names('t'), 250)
  const listener = { onGap() {}, onLost() {}, onError() {} }
  link.open(systemClock, listener)
  for (const each of made) {
    each.status = 'ready'
    each.emit('ready')
  }
  const command = vi.fn(() => Promise.reject(new Error('not connected')))
  const attempt = link.attempt('read', 'record', command)
  // It also ends the first attempt to subscribe, and so the wait of the command.
  link.close(listener)
  await expect(attempt).rejects.toMatchObject({ code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' })
  // Its rejection would end the process, because the caller has gone.
  expect(command).not.toHaveBeenCalled()
})
