import { describe, expect, it } from 'vitest'
import type { Grant } from '../ports/store.ts'
import { ManualClock, settled } from '../testing/index.ts'
import { type Hold, type HoldHooks, LeaseKeeper, type Renewer } from './lease-keeper.ts'

const grantOf = (key: string): Grant => ({ key, token: `token of ${key}`, fence: '1' })

/** Creates a keeper. The test sets the replies to `renew`. */
function setUp(
  reply: (keys: string[]) => Promise<boolean[]> = async (keys) => keys.map(() => true),
) {
  const clock = new ManualClock()
  const startedAt = clock.now()
  const log: string[] = []
  const note = (line: string) => void log.push(`${clock.now() - startedAt}: ${line}`)
  const renewer: Renewer = {
    renew(grants, leaseMs) {
      const keys = grants.map(({ key }) => key)
      note(`renew ${keys.join(' ')} for ${leaseMs}`)
      return reply(keys)
    },
  }
  const keeper = new LeaseKeeper(renewer, clock)
  const hold = (key: string, leaseMs: number, hooks: HoldHooks = {}, forMs?: number): Hold =>
    keeper.hold(grantOf(key), leaseMs, { lost: () => note(`lost ${key}`), ...hooks }, forMs)
  return { clock, keeper, log, note, hold, startedAt }
}

describe('a lease that is kept', () => {
  it('is renewed at each third of its length until it is ended', async () => {
    const { clock, keeper, log, hold } = setUp()
    const held = hold('a', 300)
    await clock.advance(250)
    held.end()
    await clock.advance(1_000)
    expect(log).toEqual(['100: renew a for 300', '200: renew a for 300'])
    expect(keeper.size).toBe(0)
    expect(clock.timers).toBe(0)
  })

  it('is not renewed if it is taken after stop()', async () => {
    const { clock, keeper, log, hold } = setUp()
    keeper.stop()
    hold('a', 300).end()
    hold('b', 300)
    await clock.advance(1_000)
    expect([log, keeper.size, clock.timers]).toEqual([[], 0, 0])
  })

  it('sends no command if it ends before its first renewal', async () => {
    const { clock, log, hold } = setUp()
    hold('a', 300).end()
    await clock.advance(1_000)
    expect(log).toEqual([])
    expect(clock.timers).toBe(0)
  })

  it('shares one timer with all others', async () => {
    const { clock, keeper, log, hold } = setUp()
    hold('a', 300)
    hold('b', 300)
    hold('c', 900)
    expect(clock.timers).toBe(1)
    await clock.advance(300)
    expect(log).toEqual([
      '100: renew a for 300',
      '100: renew b for 300',
      '200: renew a for 300',
      '200: renew b for 300',
      '300: renew c for 900',
      '300: renew a for 300',
      '300: renew b for 300',
    ])
    expect(clock.timers).toBe(1)
    expect(keeper.size).toBe(3)
  })

  it('is renewed in time if it is due sooner than all others', async () => {
    const { clock, log, hold } = setUp()
    hold('slow', 3_000)
    await clock.advance(10)
    hold('quick', 300)
    await clock.advance(100)
    expect(log).toEqual(['110: renew quick for 300'])
  })

  it('may be ended twice without effect on another lease of its key', () => {
    const { keeper, hold } = setUp()
    const first = hold('a', 300)
    hold('a', 300)
    first.end()
    first.end()
    expect(keeper.size).toBe(1)
    expect(keeper.grants()).toEqual([grantOf('a')])
  })
})

describe('a lease that the store granted to another holder', () => {
  it('is lost, reported once, and no longer renewed', async () => {
    const { clock, keeper, log, hold } = setUp(async (keys) => keys.map((key) => key !== 'a'))
    const lost = hold('a', 300)
    hold('b', 300)
    await clock.advance(200)
    expect(log).toEqual([
      '100: renew a for 300',
      '100: renew b for 300',
      '100: lost a',
      '200: renew b for 300',
    ])
    expect(keeper.grants()).toEqual([grantOf('b')])
    lost.end()
  })

  it('is not reported if it was ended while the renewal was under way', async () => {
    let answer: (held: boolean[]) => void = () => {}
    const { clock, log, hold } = setUp(() => new Promise((resolve) => (answer = resolve)))
    const held = hold('a', 300)
    await clock.advance(100)
    held.end()
    answer([false])
    await settled()
    expect(log).toEqual(['100: renew a for 300'])
  })

  it('counts as lost if the store gave no reply for this lease', async () => {
    const { clock, log, hold } = setUp(async () => [])
    hold('a', 300)
    await clock.advance(100)
    expect(log).toContain('100: lost a')
  })
})

describe('a renewal that fails', () => {
  it('is tried again twice as often, and the lease is kept', async () => {
    let calls = 0
    const { clock, log, hold } = setUp(async (keys) => {
      calls += 1
      if (calls <= 2) throw new Error('away')
      return keys.map(() => true)
    })
    hold('a', 600)
    await clock.advance(800)
    expect(log).toEqual([
      '200: renew a for 600',
      '300: renew a for 600',
      '400: renew a for 600',
      '600: renew a for 600',
      '800: renew a for 600',
    ])
  })

  it.each([
    ['refuses one lease', () => Promise.reject(new Error('no answer'))],
    ['never answers for one lease', () => new Promise<boolean[]>(() => {})],
  ])('does not affect other leases that are due if the store %s', async (_, fail) => {
    const { clock, keeper, hold } = setUp((keys) =>
      keys.includes('frozen') ? fail() : Promise.resolve(keys.map(() => true)),
    )
    const renewedAt: number[] = []
    const startedAt = clock.now()
    hold('frozen', 600)
    hold('well', 600, { renewed: (sentAt) => renewedAt.push(sentAt - startedAt) })
    await clock.advance(600)
    expect(renewedAt).toEqual([200, 400, 600])
    expect(keeper.size).toBe(2)
  })

  it('is tried again at the next third if it gets no reply', async () => {
    const { clock, log, hold } = setUp(() => new Promise(() => {}))
    hold('a', 300)
    await clock.advance(200)
    expect(log).toEqual(['100: renew a for 300', '200: renew a for 300'])
  })

  it('is also tried again if the store throws instead of rejecting', async () => {
    const { clock, log, hold } = setUp(() => {
      throw new Error('away')
    })
    hold('a', 600)
    await clock.advance(300)
    expect(log).toEqual(['200: renew a for 600', '300: renew a for 600'])
  })

  it('leaves no timer for a lease that was ended meanwhile', async () => {
    const { clock, hold } = setUp(async () => {
      throw new Error('away')
    })
    const held = hold('a', 600)
    await clock.advance(250)
    held.end()
    await clock.advance(1_000)
    expect(clock.timers).toBe(0)
  })
})

describe('the renewal callback of a holder', () => {
  it('gets the time at which the renewal was sent, from which the lease counts', async () => {
    const gate: Array<() => void> = []
    const { clock, hold, log, note, startedAt } = setUp(
      (keys) => new Promise((resolve) => gate.push(() => resolve(keys.map(() => true)))),
    )
    hold('a', 300, { renewed: (sentAt) => note(`renewed from ${sentAt - startedAt}`) })
    await clock.advance(150)
    gate[0]?.()
    await settled()
    expect(log).toEqual(['100: renew a for 300', '150: renewed from 100'])
  })

  it('is not called after the holder ended the lease', async () => {
    const gate: Array<() => void> = []
    const { clock, hold, log, note } = setUp(
      (keys) => new Promise((resolve) => gate.push(() => resolve(keys.map(() => true)))),
    )
    const held = hold('a', 300, { renewed: () => note('renewed') })
    await clock.advance(100)
    held.end()
    gate[0]?.()
    await settled()
    expect(log).toEqual(['100: renew a for 300'])
  })

  it('does not prevent the callbacks of other holders if it throws', async () => {
    const { clock, hold, log, note } = setUp(async (keys) => keys.map((key) => key !== 'b'))
    const careless = () => {
      throw new Error('careless')
    }
    hold('a', 300, { renewed: careless })
    hold('b', 300)
    hold('c', 300, { renewed: () => note('renewed c') })
    await clock.advance(199)
    const asked = ['a', 'b', 'c'].map((key) => `100: renew ${key} for 300`)
    expect(log).toEqual([...asked, '100: lost b', '100: renewed c'])
  })
})

describe('a lease with a shorter first term', () => {
  it('is renewed at a third of that term, and then of its length', async () => {
    const { clock, hold, log } = setUp()
    hold('a', 300, {}, 60)
    await clock.advance(200)
    expect(log).toEqual(['20: renew a for 300', '120: renew a for 300'])
  })
})
