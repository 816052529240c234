// The states of keys in this process: done results are bounded and expire, and unstored ends are
// retried and bounded.

import { describe, expect, it } from 'vitest'
import { Deadlines } from '../lease/deadlines.ts'
import { ManualClock, settled } from '../testing/index.ts'
import { Attempts } from './attempts.ts'
import { type Kept, keptWithoutBody } from './kept-response.ts'
import type { Beginning, Known, LocalAttempt } from './types.ts'

const MIB = 1024 * 1024
const fingerprints = { exact: 'e', canonical: '' }
const keptOf = (body: Uint8Array): Kept => ({ type: 'response', status: 200, headers: [], body })

function setUp() {
  const clock = new ManualClock()
  const deadlines = new Deadlines(clock)
  const ended: string[] = []
  const waiters = { wake: (key: string) => void ended.push(key) }
  const attempts = new Attempts({ clock, deadlines, store: {}, waiters })
  const add = (key: string, body: Uint8Array = Buffer.from('x'), forMs = 3_600_000) =>
    attempts.addDone({ key, fingerprints }, keptOf(body), forMs, attempts.sequence)
  const log: string[] = []
  const replies: Array<(stored: boolean) => void> = []
  const tried: Array<Kept | undefined> = []
  const fail = (name: string, { key = name, bytes = 0 } = {}) => {
    const attempt = {
      type: 'running',
      claim: { key, fingerprints, native: 'the request' },
      kept: keptOf(new Uint8Array(bytes)) as Kept | undefined,
      isStored: false,
      bytes: 0,
      sendEnd: () => {
        log.push(`retry ${name}`)
        tried.push(attempt.kept)
        return new Promise<void>((resolve) => {
          replies.push((isStored) => {
            attempt.isStored = isStored
            resolve()
          })
        })
      },
      stop: () => log.push(`stop ${name}`),
    }
    attempts.addUnstored(attempt as unknown as LocalAttempt, 3_600_000)
  }
  const running = (key: string) =>
    ({ type: 'running', claim: { key }, bytes: 0 }) as unknown as LocalAttempt
  return { clock, deadlines, attempts, add, fail, running, log, replies, tried, ended }
}

const hasBody = (known: Known | undefined) =>
  known?.type === 'unstored' && known.kept?.type === 'response' && known.kept.body !== undefined
const NONE = { beginning: 0, running: 0, unstored: 0 }

describe('the state of a key', () => {
  it('is that of the newest attempt: a done result does not replace it', () => {
    const { attempts, add, fail, running, log, ended } = setUp()
    const first = running('k')
    attempts.set('k', first)
    add('k')
    expect(attempts.get('k')).toBe(first)
    const next = running('k')
    attempts.set('k', next)
    expect(ended).toEqual(['k'])
    attempts.remove('k', first)
    expect(attempts.get('k')).toBe(next)
    expect(attempts.running()).toEqual([next])
    fail('k')
    expect([attempts.get('k')?.type, ended.length, log]).toEqual(['unstored', 2, []])
    add('k')
    expect([attempts.get('k')?.type, log]).toEqual(['done', ['stop k']])
    attempts.stop()
    expect([attempts.counts, attempts.unstoredBytes, attempts.done.size]).toEqual([NONE, 0, 0])
  })

  it('is that of the newest pending begin command', () => {
    const { attempts } = setUp()
    const [a, b] = [1, 2].map(() => ({ type: 'beginning' }) as unknown as Beginning)
    attempts.set('k', a)
    attempts.set('k', b)
    attempts.remove('k', a as Beginning)
    expect(attempts.get('k')).toBe(b)
    attempts.remove('k', b as Beginning)
    expect(attempts.get('k')).toBe(undefined)
  })
})

describe('done results in memory', () => {
  it('are used until their time is over, for at most a minute', async () => {
    const { clock, attempts, add } = setUp()
    add('a')
    add('short', undefined, 5_000)
    await clock.advance(4_999)
    expect([attempts.get('a')?.type, attempts.get('short')?.type]).toEqual(['done', 'done'])
    await clock.advance(1)
    expect([attempts.get('a')?.type, attempts.get('short')]).toEqual(['done', undefined])
    await clock.advance(54_999)
    expect(attempts.get('a')).toBeDefined()
    await clock.advance(1)
    expect(attempts.get('a')).toBeUndefined()
  })

  it('drop the oldest one when they are full, and refuse one that is too large', () => {
    const { attempts, add } = setUp()
    add('huge', Buffer.allocUnsafeSlow(MIB))
    expect(attempts.get('huge')).toBeUndefined()
    const body = Buffer.allocUnsafeSlow(512 * 1024)
    for (let i = 0; i < 40; i++) add(`a${i}`, body)
    expect(attempts.done.calculatedSize).toBeLessThanOrEqual(16 * MIB)
    expect(attempts.done.size).toBe(31)
    expect(attempts.get('a8')).toBeUndefined()
    expect(attempts.get('a9')).toBeDefined()
  })

  it('are dropped when their key is settled, after a gap, or when an attempt begins', () => {
    const { attempts, add, running } = setUp()
    for (const key of ['settled', 'lost', 'begun']) add(key)
    attempts.settle('settled')
    expect(attempts.get('settled')).toBeUndefined()
    const next = running('begun')
    attempts.set('begun', next)
    attempts.remove('begun', next)
    expect(attempts.get('begun')).toBeUndefined()
    attempts.forgetDone()
    expect(attempts.get('lost')).toBeUndefined()
  })
})

describe('unstored results', () => {
  it('are tried one after the other, and a failing one does not stop the others', async () => {
    const { deadlines, clock, attempts, log, replies, fail } = setUp()
    fail('a')
    fail('b')
    attempts.retryNow()
    attempts.retryNow()
    await settled()
    expect(log).toEqual(['retry a'])
    replies.shift()?.(false)
    await settled()
    expect(log).toEqual(['retry a', 'retry b'])
    replies.shift()?.(true)
    await settled()
    expect(attempts.counts.unstored).toBe(1)
    expect(clock.timers).toBe(1)
    attempts.stop()
    expect(log).toEqual(['retry a', 'retry b', 'stop b', 'stop a'])
    expect(deadlines.size).toBe(0)
  })

  it('lose their bodies beyond the limit, the oldest first, and are still stored', async () => {
    const { attempts, log, replies, tried, fail } = setUp()
    for (const name of ['a', 'b', 'c']) fail(name, { bytes: 30 * MIB })
    expect(log).toEqual([])
    expect(attempts.counts.unstored).toBe(3)
    expect(attempts.unstoredBytes).toBeLessThan(64 * MIB)
    const keysWithBody = ['a', 'b', 'c'].filter((key) => hasBody(attempts.get(key)))
    expect(keysWithBody).toEqual(['b', 'c'])
    attempts.retryNow()
    await settled()
    expect(tried).toEqual([keptWithoutBody()])
    replies.shift()?.(true)
    await settled()
    attempts.stop()
  })

  it('do not keep the request of their attempt in memory', () => {
    const { attempts, fail } = setUp()
    fail('a')
    const known = attempts.get('a')
    expect(known?.type === 'unstored' && known.claim).toEqual({ key: 'a', fingerprints })
    attempts.stop()
  })

  it('are stored without a body if one alone is too large', () => {
    const { attempts, log, fail } = setUp()
    fail('a', { bytes: 65 * MIB })
    expect(log).toEqual([])
    expect(hasBody(attempts.get('a'))).toBe(false)
    attempts.stop()
  })

  it('are given up, the oldest first, only if not even their names fit', () => {
    const { attempts, log, fail } = setUp()
    for (let i = 0; i < 90_000; i++) fail(String(i))
    expect(log[0]).toBe('stop 0')
    expect(log).toHaveLength(90_000 - attempts.counts.unstored)
    expect(attempts.unstoredBytes).toBeGreaterThan(63 * MIB)
    attempts.stop()
    expect(attempts.unstoredBytes).toBe(0)
  })

  it('no longer count once they are stored or replaced', async () => {
    const { attempts, replies, fail } = setUp()
    fail('a', { bytes: MIB })
    fail('a', { bytes: 10 })
    expect(attempts.unstoredBytes).toBeLessThan(MIB)
    attempts.retryNow()
    await settled()
    replies.shift()?.(true)
    await settled()
    expect([attempts.counts.unstored, attempts.unstoredBytes]).toEqual([0, 0])
  })

  it('are tried again at short intervals once the store is back', async () => {
    const { clock, attempts, log, replies, fail } = setUp()
    fail('a')
    const failAfter = async (ms: number) => {
      await clock.advance(ms)
      replies.shift()?.(false)
      await settled()
    }
    for (const ms of [100, 200, 400, 800, 1_600, 3_200]) await failAfter(ms)
    expect(log.splice(0)).toHaveLength(6)
    attempts.storeIsBack()
    await failAfter(0)
    await failAfter(100)
    expect(log).toEqual(['retry a', 'retry a'])
    attempts.stop()
  })

  it('are replaced by a later result of the same key, even while they are being stored', async () => {
    const { attempts, log, replies, fail } = setUp()
    fail('old', { key: 'k' })
    attempts.retryNow()
    await settled()
    fail('new', { key: 'k' })
    expect(log).toEqual(['retry old', 'stop old'])
    replies.shift()?.(true)
    await settled()
    expect(attempts.counts.unstored).toBe(1)
    attempts.retryNow()
    await settled()
    expect(log).toEqual(['retry old', 'stop old', 'retry new'])
    replies.shift()?.(true)
    await settled()
    expect(attempts.counts.unstored).toBe(0)
  })

  it('are not tried again if they were replaced', async () => {
    const { attempts, log, replies, fail } = setUp()
    fail('a')
    fail('old', { key: 'k' })
    attempts.retryNow()
    await settled()
    fail('new', { key: 'k' })
    replies.shift()?.(true)
    await settled()
    expect(log).toEqual(['retry a', 'stop old', 'stop a'])
    attempts.stop()
  })

  it('are given up after stop()', () => {
    const { clock, attempts, log, fail } = setUp()
    attempts.stop()
    fail('a')
    expect(log).toEqual(['stop a'])
    expect([attempts.counts.unstored, clock.timers]).toEqual([0, 0])
  })
})
