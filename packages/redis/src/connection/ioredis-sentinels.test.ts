import { EventEmitter } from 'node:events'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { Connection } from './client-types.ts'
import { askAllSentinels } from './sentinels.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const PATIENCE_MS = 100

interface Sentinel {
  host?: string
  /** Undefined: it knows no such master. */
  port?: number
  epoch?: number
  /** Time until it replies, or until it fails. */
  ms?: number
  fails?: boolean
  /** A Sentinel that its reply adds. */
  adds?: Sentinel
}

/** The members of ioredis's SentinelConnector, and its connection. */
class Connector {
  readonly options = { name: 'shop' }
  readonly sentinelIterator: { sentinels: Sentinel[] }

  constructor(...sentinels: Sentinel[]) {
    this.sentinelIterator = { sentinels }
  }

  async resolve(sentinel: Sentinel): Promise<unknown> {
    const { epoch, ms = 1, fails, adds } = sentinel
    await new Promise((resolve) => setTimeout(resolve, ms))
    if (fails) throw new Error('refused')
    const { sentinels } = this.sentinelIterator
    if (adds !== undefined && !sentinels.includes(adds)) sentinels.push(adds)
    const reply = ['config-epoch', String(epoch)]
    const client = { sentinel: async () => reply, named: sentinel.port }
    return this.resolveMaster(client)
  }

  connectToSentinel(): EventEmitter {
    return new EventEmitter()
  }

  async resolveMaster({ named }: { named?: number | undefined }): Promise<unknown> {
    return named === undefined ? null : { host: 'm', port: named }
  }
}

function connect(...sentinels: Sentinel[]) {
  const connector = new Connector(...sentinels)
  const disconnect = vi.fn()
  const connection = Object.assign(new EventEmitter(), { connector, disconnect })
  askAllSentinels(connection as unknown as Connection, PATIENCE_MS)
  let found: unknown
  const find = async (ms: number) => {
    found = undefined
    const [first] = connector.sentinelIterator.sentinels as [Sentinel]
    connector.resolve(first).then(
      (address) => {
        found = address
      },
      (error: Error) => {
        found = error.message
      },
    )
    await vi.advanceTimersByTimeAsync(ms)
    return found
  }
  return { connector, connection, disconnect, find }
}

const OLD = { port: 1, epoch: 0 }
const NEW = { port: 2, epoch: 1 }

it('takes the newer configuration of two Sentinels, in any order', async () => {
  expect(await connect(OLD, NEW).find(10)).toEqual({ host: 'm', port: 2 })
  expect(await connect(NEW, OLD).find(10)).toEqual({ host: 'm', port: 2 })
})

it('does not wait for a frozen Sentinel if most have replied', async () => {
  expect(await connect({ ...NEW, ms: 5_000 }, OLD, { ...OLD }).find(10)).toEqual({
    host: 'm',
    port: 1,
  })
})

it('waits for most Sentinels, but no longer than its patience', async () => {
  const { find } = connect(OLD, { ...NEW, ms: 90 }, { ...NEW, ms: 5_000 })
  expect(await find(80)).toBeUndefined()
  expect(await find(95)).toEqual({ host: 'm', port: 2 })
  const only = connect(OLD, { ...NEW, ms: 5_000 }, { ...NEW, ms: 5_000 })
  expect(await only.find(95)).toBeUndefined()
  expect(await only.find(105)).toEqual({ host: 'm', port: 1 })
})

it('does not wait if the others refuse', async () => {
  const { find } = connect(OLD, { fails: true }, { fails: true })
  expect(await find(10)).toEqual({ host: 'm', port: 1 })
})

it('also asks the Sentinels that a reply adds', async () => {
  expect(await connect({ ...OLD, adds: NEW }).find(10)).toEqual({ host: 'm', port: 2 })
})

it('names the reason if no Sentinel knows the master, or if one fails', async () => {
  expect(await connect({}, {}).find(10)).toBe('no Sentinel knows a master with the name shop')
  const failing = { host: 's', port: 1, fails: true }
  expect(await connect({}, failing).find(10)).toBe('Sentinel s:1: refused')
})

it('disconnects at the next check if a newer configuration names another server', async () => {
  const second = { ...OLD }
  const { connection, disconnect, find } = connect(OLD, second)
  await find(10)
  connection.emit('ready')
  await vi.advanceTimersByTimeAsync(10_100)
  expect(disconnect).not.toHaveBeenCalled()
  // Equal epochs: two names of one server. A greater epoch: only if the server is another one.
  second.port = 2
  await vi.advanceTimersByTimeAsync(10_000)
  Object.assign(second, { port: 1, epoch: 1 })
  await vi.advanceTimersByTimeAsync(10_000)
  expect(disconnect).not.toHaveBeenCalled()
  Object.assign(second, { port: 2, epoch: 1 })
  await vi.advanceTimersByTimeAsync(10_000)
  expect(disconnect.mock.calls).toEqual([[true]])
  connection.emit('close')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(disconnect).toHaveBeenCalledTimes(1)
  expect(vi.getTimerCount()).toBe(0)
})

it('hears the errors of each connection to a Sentinel, so that ioredis does not print them', () => {
  const { connector } = connect(OLD)
  expect(connector.connectToSentinel().listenerCount('error')).toBe(1)
})

it('leaves a connector without these members alone', () => {
  const connector = { resolve: 1 }
  const connection = Object.assign(new EventEmitter(), { connector })
  askAllSentinels(connection as unknown as Connection, PATIENCE_MS)
  expect(connector).toEqual({ resolve: 1 })
})

it('leaves a connection as ioredis made it if a member is missing', () => {
  const connector = Object.assign(new Connector(), { connectToSentinel: undefined })
  const connection = Object.assign(new EventEmitter(), { connector })
  askAllSentinels(connection as unknown as Connection, PATIENCE_MS)
  expect(Object.hasOwn(connector, 'resolve')).toBe(false)
})
