import { EventEmitter } from 'node:events'
import { afterEach, expect, it, vi } from 'vitest'
import type { Address, Connection } from '../connection/connection.ts'
import { textOf } from '../connection/connection.ts'
import { Sentinels } from './sentinels.ts'

class FakeSentinel extends EventEmitter {
  status = 'ready'
  port: number | undefined
  hangs = false

  constructor(port: number) {
    super()
    this.port = port
  }

  callBuffer(): Promise<unknown> {
    if (this.hangs) return new Promise(() => {})
    const host = Buffer.from('m')
    return Promise.resolve(this.port ? [host, Buffer.from(`${this.port}`)] : null)
  }

  subscribe = async () => {}
  ping = async () => {}
  disconnect = vi.fn()
}

const opened: Sentinels[] = []
/** How long a Sentinel may take. */
let askMs = 300
afterEach(() => {
  askMs = 300
  vi.useRealTimers()
  for (const each of opened.splice(0)) each.close()
})

/** Sentinels that name the master `m` at these ports. */
function open(...ports: number[]) {
  const fakes = ports.map((port) => new FakeSentinel(port))
  const moved: Address[] = []
  const nodes = fakes.map((_, i) => ({ host: 's', port: i }))
  const sentinels = new Sentinels({
    name: 'shop',
    nodes,
    askMs,
    open: ({ port }) => fakes[port] as unknown as Connection,
    onMoved: (master) => void moved.push(master),
  })
  opened.push(sentinels)
  const report = (at: number, text: string) =>
    fakes[at]?.emit('messageBuffer', Buffer.from('+switch-master'), Buffer.from(text))
  return { sentinels, fakes, moved, report, find: async () => textOf(await sentinels.find()) }
}

it('find() takes the master that most Sentinels name', async () => {
  expect(await open(1, 2, 2).find()).toBe('m:2')
})

it('find() does not wait for a frozen Sentinel if most of the others agree', async () => {
  askMs = 60_000
  const { fakes, find } = open(1, 1, 1)
  for (const each of fakes.slice(0, 1)) each.hangs = true
  expect(await find()).toBe('m:1')
})

it('find() takes the word of the only Sentinel that replies', async () => {
  const { fakes, find } = open(1, 1, 2)
  for (const each of fakes.slice(0, 2)) each.hangs = true
  expect(await find()).toBe('m:2')
})

it('find() takes the master of a reported fail-over, once one Sentinel names it', async () => {
  const { find, report, moved } = open(1, 1, 2)
  report(2, 'shop m 1 m 2')
  expect(moved.map(textOf)).toEqual(['m:2'])
  expect(await find()).toBe('m:2')
})

it('find() ignores reports about other masters, and invalid ones', async () => {
  const { find, report, moved } = open(1, 1, 2)
  for (const text of ['other m 1 m 2', 'shop', 'shop m 1 m 0', 'shop m 1 m x', '']) report(2, text)
  expect(moved).toEqual([])
  expect(await find()).toBe('m:1')
})

it('find() rejects with the name if no Sentinel knows it, or with the error of a Sentinel', async () => {
  const { fakes, find } = open(0, 0)
  await expect(find()).rejects.toThrow('no Sentinel knows a master with the name shop')
  for (const each of fakes) each.status = 'connecting'
  for (const each of fakes) each.emit('error', new Error('connect ECONNREFUSED'))
  await expect(find()).rejects.toThrow('Sentinel s:1: connect ECONNREFUSED')
})

it('a Sentinel that is connected again is asked for fail-overs that it reported before', async () => {
  const { fakes, moved } = open(2, 2, 2)
  fakes[0]?.emit('ready')
  await expect.poll(() => moved.map(textOf)).toEqual(['m:2'])
})

it('a Sentinel that refuses the subscription keeps its connection, and is asked every 10 s', async () => {
  vi.useFakeTimers()
  const { fakes, moved } = open(2, 2, 2)
  const [fake] = fakes as [FakeSentinel]
  const refusal = Object.assign(new Error('NOPERM no permissions'), { name: 'ReplyError' })
  fake.subscribe = () => Promise.reject(refusal)
  fake.emit('ready')
  await vi.advanceTimersByTimeAsync(9_000)
  expect(moved).toEqual([])
  await vi.advanceTimersByTimeAsync(1_000)
  expect(moved.map(textOf)).toEqual(['m:2'])
  expect(fake.disconnect).not.toHaveBeenCalled()
})

it('a Sentinel whose connection is lost during the subscription gets a new connection', async () => {
  const { fakes } = open(2, 2, 2)
  const [fake] = fakes as [FakeSentinel]
  fake.subscribe = () => Promise.reject(new Error('Socket closed unexpectedly'))
  fake.emit('ready')
  await expect.poll(() => fake.disconnect.mock.calls).toEqual([[true]])
})
