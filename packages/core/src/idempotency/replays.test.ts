import { describe, expect, it } from 'vitest'
import { ManualClock } from '../testing/index.ts'
import type { Kept } from './kept-response.ts'
import { Replays } from './replays.ts'

const fingerprints = { exact: 'e', canonical: '' }
const keptOf = (body: Uint8Array): Kept => ({ type: 'response', status: 200, headers: [], body })
const MIB = 1024 * 1024

function setUp() {
  const clock = new ManualClock()
  const replays = new Replays(clock, () => true)
  const add = (key: string, body: Uint8Array = Buffer.from('x'), forMs = 3_600_000) =>
    replays.add(key, { kept: keptOf(body), fingerprints }, forMs, replays.sequence())
  return { clock, replays, add }
}

describe('replays in memory', () => {
  it('are removed when their time is over, without a lookup, by one timer', async () => {
    const { clock, replays, add } = setUp()
    for (let i = 0; i < 100; i++) add(`a${i}`)
    add('short', undefined, 5_000)
    await clock.advance(30_000)
    expect(replays.get('short')).toBeUndefined()
    add('later')
    expect(clock.timers).toBe(1)
    await clock.advance(30_000)
    expect(replays.size.entries).toBe(1)
    await clock.advance(30_000)
    expect(replays.size).toEqual({ entries: 0, bytes: 0 })
    expect(clock.timers).toBe(0)
  })

  it('are used until just before their time is over', async () => {
    const { clock, replays, add } = setUp()
    add('first')
    await clock.advance(500)
    add('a')
    await clock.advance(59_999)
    expect(replays.get('a')).toBeDefined()
    await clock.advance(1)
    // Not swept yet, because the timer of the first entry runs at most once a second.
    expect(replays.size.entries).toBe(1)
    expect(replays.get('a')).toBeUndefined()
  })

  it('drop the oldest one when they are full, and refuse one that is too large', () => {
    const { replays, add } = setUp()
    add('huge', Buffer.allocUnsafeSlow(MIB))
    expect(replays.size).toEqual({ entries: 0, bytes: 0 })
    const body = Buffer.allocUnsafeSlow(512 * 1024)
    for (let i = 0; i < 40; i++) add(`a${i}`, body)
    expect(replays.size.bytes).toBeLessThanOrEqual(16 * MIB)
    expect(replays.size.entries).toBe(31)
    expect(replays.get('a8')).toBeUndefined()
    expect(replays.get('a9')).toBeDefined()
  })

  it('are counted once if added twice, and no longer after a settlement or clear', () => {
    const { clock, replays, add } = setUp()
    add('a')
    const { bytes } = replays.size
    add('a')
    expect(replays.size).toEqual({ entries: 1, bytes })
    replays.settle('a')
    replays.settle('a')
    expect(replays.size).toEqual({ entries: 0, bytes: 0 })
    add('b')
    replays.clear()
    expect(replays.size).toEqual({ entries: 0, bytes: 0 })
    expect(clock.timers).toBe(0)
  })
})
