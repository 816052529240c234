import { EventEmitter } from 'node:events'
import { type Clock, systemClock } from '@stampede/core/store'
import { ManualClock } from '@stampede/core/testing'
import { describe, expect, it, vi } from 'vitest'
import { names } from '../protocol/keys.ts'
import type { IoredisClient } from './client-types.ts'
import { RedisLink } from './link.ts'
import type { OpenLink } from './open-link.ts'
import { AGAIN, type Job, type Operation } from './operation.ts'

/** A connection whose subscription is pending until the connection is closed. */
class FakeConnection extends EventEmitter {
  status = 'connecting'
  readonly slots = []
  readonly nodes = () => []
  subscribed: () => void = () => {}
  #reject: (error: Error) => void = () => {}

  subscribe(): Promise<unknown> {
    return new Promise<void>((resolve, reject) => {
      this.subscribed = resolve
      this.#reject = reject
    })
  }

  disconnect(): void {
    this.status = 'end'
    this.#reject(new Error('Connection is closed.'))
  }
}

/** A link whose connections open when `ready` is called. */
function openLink(clock: Clock = systemClock, budgetMs = 250, isCluster = false) {
  const made: FakeConnection[] = []
  const duplicate = () => {
    made.push(new FakeConnection())
    return made.at(-1)
  }
  const redis = { isCluster, options: {}, duplicate } as unknown as IoredisClient
  const link = new RedisLink(redis, names('t'), budgetMs)
  const listener = { onGap() {}, onLost() {}, onError() {} }
  link.open(clock, listener)
  const ready = () => {
    for (const each of made) {
      each.status = 'ready'
      each.emit('ready')
      each.subscribed()
    }
  }
  return { link, made, ready, close: () => link.close(listener) }
}

const UNAVAILABLE = { code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' }
const script = { name: 'test', keys: 1, sha1: 'x', source: 'return 1' } as const

/** Begins a job whose first step is `begin`, in place of its script. */
function operate<T = unknown>(
  link: RedisLink,
  begin: (operation: Operation<T>) => void,
  more: Partial<Job<T>> = {},
): Promise<T> {
  const read = (raw: unknown) => raw as T
  return new Promise<T>((resolve, reject) => {
    link.begin<T>({
      ...{ name: 'read', script, keys: ['record'], options: {}, args: () => [], read },
      receiver: { resolve, reject },
      known(_turn, operation) {
        begin(operation as Operation<T>)
        return AGAIN
      },
      ...more,
    })
  })
}

describe('an operation', () => {
  it('sends nothing after the store was closed if it waited for the connections', async () => {
    const { link, close } = openLink()
    const work = vi.fn()
    const attempt = operate(link, work)
    await new Promise((resolve) => setImmediate(resolve))
    close()
    await expect(attempt).rejects.toMatchObject(UNAVAILABLE)
    await expect(attempt).rejects.toThrow('the store was closed')
    expect(work).not.toHaveBeenCalled()
  })

  it('sends nothing more after the store was closed between its steps', async () => {
    const { link, ready, close } = openLink()
    ready()
    await link.opened
    const command = vi.fn(() => Promise.reject(new Error('not connected')))
    const next = (operation: Operation<unknown>) =>
      operation.command('read', command, () => operation.resolve(1))
    const confirm = () => new Promise<void>((resolve) => setTimeout(resolve, 20))
    const attempt = operate(link, next, { confirm })
    await new Promise((resolve) => setImmediate(resolve))
    close()
    await expect(attempt).rejects.toThrow('redis read: the store was closed')
    // Its rejection would end the process, because the caller has gone.
    expect(command).not.toHaveBeenCalled()
  })

  it('waits longer than its budget for the first connection, and begins a new budget then', async () => {
    const { link, ready, close } = openLink()
    const waiting = operate(link, (operation) => {
      setTimeout(() => operation.resolve(operation.leftMs), 30)
    })
    await new Promise((resolve) => setTimeout(resolve, 400))
    ready()
    expect(await waiting).toBeGreaterThan(150)
    close()
  })

  it('gives up its wait for the first connection a second after the store was opened', async () => {
    const clock = new ManualClock()
    const { link, close } = openLink(clock)
    const read = () => operate(link, (operation) => operation.resolve(1))
    const early = expect(read()).rejects.toThrow('not connected: no connection within 1000 ms')
    await clock.advance(1_000)
    await early
    const late = expect(read()).rejects.toThrow('not connected: no connection within 250 ms')
    await new Promise((resolve) => setImmediate(resolve))
    await clock.advance(250)
    await late
    close()
  })

  it('gives up its wait for the first connection after a budget above a second', async () => {
    const clock = new ManualClock()
    const { link, close } = openLink(clock, 2_000)
    const read = operate(link, (operation) => operation.resolve(1))
    const early = expect(read).rejects.toThrow('not connected: no connection within 2000 ms')
    await new Promise((resolve) => setImmediate(resolve))
    await clock.advance(2_000)
    await early
    close()
  })

  it('gives up its wait for the first connection when an attempt to connect has failed', async () => {
    const { link, made, close } = openLink()
    const read = () => operate(link, (operation) => operation.resolve(1))
    const early = expect(read()).rejects.toThrow('redis read: not connected: refused')
    await new Promise((resolve) => setTimeout(resolve, 400))
    made[0]?.emit('error', new Error('refused'))
    await early
    await expect(read()).rejects.toThrow('redis read: not connected: refused')
    close()
  })

  it('waits for a connection only in the first second if it is in the background', async () => {
    const clock = new ManualClock()
    const { link, close } = openLink(clock)
    await clock.advance(1_000)
    const failed = link.ask('PING').catch(({ code }) => code)
    // Each heartbeat would otherwise stay in memory, for as long as Redis is down.
    const turn = new Promise((resolve) => setImmediate(resolve))
    expect(await Promise.race([failed, turn])).toBe(UNAVAILABLE.code)
    close()
  })

  it('has a whole budget for each step in the first second of the connection', async () => {
    const clock = new ManualClock()
    const { link, ready, close } = openLink(clock)
    ready()
    await link.opened
    const left = () => {
      const steps = [clock.advance(200)]
      const read = (operation: Operation<number>) => operation.resolve(operation.leftMs)
      return operate<number>(link, read, { confirm: () => steps.pop() })
    }
    expect(await left()).toBe(250)
    await clock.advance(1_000)
    expect(await left()).toBe(50)
    close()
  })

  it('is given up after 30 s in the queue', async () => {
    const clock = new ManualClock()
    const { link, ready, close } = openLink(clock)
    ready()
    await link.opened
    const waiting: Array<Operation<number>> = []
    const options = { begins: true }
    const begin = () =>
      operate<number>(link, (operation) => void waiting.push(operation), { options })
    const begun = Array.from({ length: 128 }, begin)
    await new Promise((resolve) => setImmediate(resolve))
    const old = begin()
    await clock.advance(20_000)
    const young = begin()
    await clock.advance(15_000)
    for (const operation of waiting) operation.resolve(1)
    await expect(old).rejects.toThrow('waited too long behind other commands')
    waiting.at(-1)?.resolve(2)
    expect(await young).toBe(2)
    await Promise.all(begun)
    close()
  })

  it('handles the rejection of what it waits for after the store was closed', async () => {
    const { link, ready, close } = openLink()
    ready()
    await link.opened
    // Without a handler, Node would end the process. Vitest reports the rejection.
    const confirm = () => Promise.reject(new Error('closed'))
    const waiting = operate(link, () => {}, { confirm })
    close()
    await expect(waiting).rejects.toThrow('redis read: the store was closed')
    await new Promise((resolve) => setImmediate(resolve))
  })

  it('fails with the error of a step that throws, and tells it before', async () => {
    const { link, ready, close } = openLink()
    ready()
    await link.opened
    const seen: unknown[] = []
    const onFailed = (error: unknown) => {
      seen.push(error)
      return error
    }
    const fails = () => {
      throw new Error('malformed')
    }
    const failing = operate(link, fails, { onFailed })
    await expect(failing).rejects.toThrow('malformed')
    expect(seen).toHaveLength(1)
    close()
  })
})

describe('jobs that begin together', () => {
  /** Begins a job for each of `count` keys. Returns how each ended, and what was sent. */
  async function begin(count: number, more: object = {}) {
    const { link, made, ready, close } = openLink()
    ready()
    await link.opened
    const sent: Array<{ keys: number; resolve: (reply: unknown) => void }> = []
    const callBuffer = (_: string, _source: string, keys: number) =>
      new Promise((resolve) => void sent.push({ keys, resolve }))
    for (const connection of made) Object.assign(connection, { callBuffer })
    const ended: string[] = []
    link.together(() => {
      for (let i = 0; i < count; i++) {
        const receiver = {
          resolve: (value: string) => void ended.push(value),
          reject: (error: Error) => void ended.push(error.message),
        }
        const job = { script, keys: [`k${i}`], options: {}, args: () => [], read: String, receiver }
        link.begin<string>({ ...job, ...(i === 0 ? more : {}) })
      }
    })
    await new Promise((resolve) => setImmediate(resolve))
    return { sent, ended, close }
  }

  it('leave most of many keys in the queue, with their time budgets', async () => {
    const { sent, close } = await begin(1_000)
    expect(sent.reduce((sum, { keys }) => sum + keys, 0)).toBe(192)
    close()
  })

  it('are sent with new arguments if their script runs once more', async () => {
    let times = 0
    const more = { args: () => [++times], read: () => (times === 1 ? AGAIN : 'done') }
    const { sent, ended, close } = await begin(2, more)
    sent[0]?.resolve([['a', 'b'], []])
    await vi.waitFor(() => expect(sent).toHaveLength(2))
    sent[1]?.resolve('c')
    await vi.waitFor(() => expect(ended).toEqual(['b', 'done']))
    expect(times).toBe(2)
    close()
  })

  it('fail together, also if the receiver of one throws', async () => {
    const onThrown = vi.fn()
    const receiver = {
      resolve() {},
      reject() {
        throw new Error('thrown by a receiver')
      },
    }
    const listeners = process.listeners('uncaughtException')
    process.removeAllListeners('uncaughtException').on('uncaughtException', onThrown)
    const { ended, close } = await begin(3, { receiver })
    close()
    await vi.waitFor(() => expect(ended).toHaveLength(2))
    await new Promise((resolve) => setImmediate(resolve))
    process.removeAllListeners('uncaughtException')
    for (const each of listeners) process.on('uncaughtException', each)
    expect(onThrown).toHaveBeenCalledOnce()
  })
})

it('a Cluster that was away at the start is available once its nodes are known', () => {
  const { link, made, close } = openLink(systemClock, 250, true)
  const { breaker } = (link.current as OpenLink).servers.get('')
  for (let i = 0; i < 3; i++) breaker.failed()
  const [commands] = made as [FakeConnection]
  commands.status = 'ready'
  expect(link.isAvailable).toBe(false)
  commands.emit('ready')
  expect(link.isAvailable).toBe(true)
  close()
})

it('an operation on a link that is not open is rejected', async () => {
  const redis = { isCluster: false, options: {}, duplicate: () => new FakeConnection() }
  const link = new RedisLink(redis as unknown as IoredisClient, names('t'), 250)
  await expect(link.ask('PING')).rejects.toThrow(
    'redis run: pass the store to createStampede first',
  )
})
