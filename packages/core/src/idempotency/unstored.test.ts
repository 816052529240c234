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
  const add = (name: string, { key = name, bytes = 0 } = {}) =>
    unstored.add(
      key,
      {
        kept: keptOf(bytes),
        fingerprints: print,
        retry: () => {
          log.push(`retry ${name}`)
          return new Promise((resolve) => replies.push(resolve))
        },
        giveUp: () => log.push(`give up ${name}`),
      },
      3_600_000,
    )
  return { clock, unstored, log, replies, add }
}

describe('unstored results', () => {
  it('are tried one after the other, and one that fails does not stop the others', async () => {
    const { clock, unstored, log, replies, add } = setUp()
    add('a')
    add('b')
    unstored.retryNow()
    unstored.retryNow()
    await settled()
    expect(log).toEqual(['retry b'])
    replies.shift()?.(false)
    await settled()
    expect(log).toEqual(['retry b', 'retry a'])
    replies.shift()?.(true)
    await settled()
    expect(unstored.size).toBe(1)
    expect(clock.timers).toBe(1)
    unstored.stop()
    expect(log).toEqual(['retry b', 'retry a', 'give up b'])
    expect(clock.timers).toBe(0)
  })

  it('that are more than may be held are given up, the oldest first', () => {
    const { unstored, log, add } = setUp()
    for (const name of ['a', 'b', 'c']) add(name, { bytes: 30 * MIB })
    expect(log).toEqual(['give up a'])
    unstored.stop()
  })

  it('have room for so much, beside what is held', () => {
    const { unstored, add } = setUp()
    expect(unstored.fits(keptOf(40 * MIB))).toBe(true)
    add('a', { bytes: 40 * MIB })
    expect(unstored.fits(keptOf(40 * MIB))).toBe(false)
    expect(unstored.fits(keptOf(20 * MIB))).toBe(true)
    unstored.stop()
  })

  it('that are too large to be held at all do not keep their lease for ever', () => {
    const { clock, unstored, log, add } = setUp()
    add('a', { bytes: 65 * MIB })
    expect(log).toEqual(['give up a'])
    expect(unstored.size).toBe(0)
    expect(clock.timers).toBe(0)
  })

  it('of one key: the later one counts, also while the earlier is being stored', async () => {
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

  it('that come after the end are not begun with', () => {
    const { clock, unstored, log, add } = setUp()
    unstored.stop()
    add('a')
    expect(log).toEqual(['give up a'])
    expect([unstored.size, clock.timers]).toEqual([0, 0])
  })
})
