import { describe, expect, it } from 'vitest'
import { ManualClock, settled } from '../testing/index.ts'
import type { Kept } from './kept-response.ts'
import { Unstored } from './unstored.ts'

const MIB = 1024 * 1024
const print = { exact: 'e', canonical: '' }
const keptOf = (bytes: number): Kept => ({
  type: 'response',
  status: 200,
  headers: [],
  body: new Uint8Array(bytes),
})

function setUp() {
  const clock = new ManualClock()
  const unstored = new Unstored(clock)
  const log: string[] = []
  const replies: Array<(stored: boolean) => void> = []
  const tried: Array<Kept | undefined> = []
  const add = (name: string, { key = name, bytes = 0 } = {}) =>
    unstored.add(
      key,
      {
        kept: keptOf(bytes),
        fingerprints: print,
        retry: (kept) => {
          log.push(`retry ${name}`)
          tried.push(kept)
          return new Promise((resolve) => replies.push(resolve))
        },
        giveUp: () => log.push(`give up ${name}`),
      },
      3_600_000,
    )
  return { clock, unstored, log, replies, tried, add }
}

describe('unstored results', () => {
  it('are tried one after the other, and a failing one does not stop the others', async () => {
    const { clock, unstored, log, replies, add } = setUp()
    add('a')
    add('b')
    unstored.retryNow()
    unstored.retryNow()
    await settled()
    expect(log).toEqual(['retry a'])
    replies.shift()?.(false)
    await settled()
    expect(log).toEqual(['retry a', 'retry b'])
    replies.shift()?.(true)
    await settled()
    expect(unstored.size).toBe(1)
    expect(clock.timers).toBe(1)
    unstored.stop()
    expect(log).toEqual(['retry a', 'retry b', 'give up a'])
    expect(clock.timers).toBe(0)
  })

  it('lose their bodies beyond the limit, the oldest first, and are still stored', async () => {
    const { unstored, log, replies, tried, add } = setUp()
    for (const name of ['a', 'b', 'c']) add(name, { bytes: 30 * MIB })
    expect(log).toEqual([])
    expect(unstored.size).toBe(3)
    expect(unstored.bytes).toBeLessThan(64 * MIB)
    const types = () => ['a', 'b', 'c'].map((key) => unstored.get(key)?.kept.type)
    expect(types()).toEqual(['not-retained', 'response', 'response'])
    unstored.retryNow()
    await settled()
    expect(tried).toEqual([{ type: 'not-retained', status: 200, location: undefined }])
    replies.shift()?.(true)
    await settled()
    unstored.stop()
  })

  it('are stored without a body if one alone is too large', () => {
    const { unstored, log, add } = setUp()
    add('a', { bytes: 65 * MIB })
    expect(log).toEqual([])
    expect(unstored.get('a')?.kept.type).toBe('not-retained')
    unstored.stop()
  })

  it('are given up, the oldest first, only if not even their names fit', () => {
    const { unstored, log, add } = setUp()
    for (let i = 0; i < 60_000; i++) add(String(i))
    expect(log[0]).toBe('give up 0')
    expect(log).toHaveLength(60_000 - unstored.size)
    expect(unstored.bytes).toBeGreaterThan(63 * MIB)
    unstored.stop()
    expect(unstored.bytes).toBe(0)
  })

  it('no longer count once they are stored or replaced', async () => {
    const { unstored, replies, add } = setUp()
    add('a', { bytes: MIB })
    add('a', { bytes: 10 })
    expect(unstored.bytes).toBeLessThan(MIB)
    unstored.retryNow()
    await settled()
    replies.shift()?.(true)
    await settled()
    expect([unstored.size, unstored.bytes]).toEqual([0, 0])
  })

  it('are tried again at short intervals once the store is back', async () => {
    const { clock, unstored, log, replies, add } = setUp()
    add('a')
    const fail = async (ms: number) => {
      await clock.advance(ms)
      replies.shift()?.(false)
      await settled()
    }
    for (const ms of [100, 200, 400, 800, 1_600, 3_200]) await fail(ms)
    expect(log.splice(0)).toHaveLength(6)
    unstored.storeIsBack()
    await fail(0)
    await fail(100)
    expect(log).toEqual(['retry a', 'retry a'])
    unstored.stop()
  })

  it('are replaced by a later result of the same key, even while they are being stored', async () => {
    const { unstored, log, replies, add } = setUp()
    add('old', { key: 'k' })
    unstored.retryNow()
    await settled()
    add('new', { key: 'k' })
    expect(log).toEqual(['retry old', 'give up old'])
    replies.shift()?.(true)
    await settled()
    expect(unstored.size).toBe(1)
    unstored.retryNow()
    await settled()
    expect(log).toEqual(['retry old', 'give up old', 'retry new'])
    replies.shift()?.(true)
    await settled()
    expect(unstored.size).toBe(0)
  })

  it('are not tried again if they were replaced', async () => {
    const { unstored, log, replies, add } = setUp()
    add('a')
    add('old', { key: 'k' })
    unstored.retryNow()
    await settled()
    add('new', { key: 'k' })
    replies.shift()?.(true)
    await settled()
    expect(log).toEqual(['retry a', 'give up old'])
    unstored.stop()
  })

  it('are given up after stop()', () => {
    const { clock, unstored, log, add } = setUp()
    unstored.stop()
    add('a')
    expect(log).toEqual(['give up a'])
    expect([unstored.size, clock.timers]).toEqual([0, 0])
  })
})
