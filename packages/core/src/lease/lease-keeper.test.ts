import { describe, expect, it } from 'vitest'
import type { Grant } from '../ports/store.ts'
import { ManualClock, settled } from '../testing/index.ts'
import { type HeldLease, LeaseKeeper, type Renewer } from './lease-keeper.ts'

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
  const hold = (key: string, leaseMs: number, own: Partial<HeldLease> = {}) => {
    const lease: HeldLease = {
      ...{ at: 0, place: -1, order: 0, endsAt: Number.POSITIVE_INFINITY },
      ...{ grant: grantOf(key), leaseMs },
      due: () => void keeper.renew(lease),
      lost: () => note(`lost ${key}`),
      ...own,
    }
    keeper.hold(lease, leaseMs)
    return { end: () => keeper.end(lease) }
  }
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
})

describe('a lease with an end of its own', () => {
  it('is due at that end, also after its renewal was stopped', async () => {
    const { clock, keeper, note, log, hold, startedAt } = setUp(async (keys) =>
      keys.map(() => false),
    )
    const due = () => note('due')
    const first = hold('a', 300, { endsAt: startedAt + 50, due })
    hold('b', 300, { endsAt: startedAt + 250 })
    await clock.advance(200)
    expect(log).toEqual(['50: due', '100: renew b for 300', '100: lost b'])
    first.end()
    keeper.stop()
    hold('c', 300, { endsAt: startedAt + 220, due })
    await clock.advance(100)
    expect(log.slice(3)).toEqual(['220: due'])
    expect([keeper.size, clock.timers]).toEqual([0, 0])
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
})

describe('the renewal callback of a holder', () => {
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
