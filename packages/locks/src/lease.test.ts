import { ManualClock } from '@stampede/core/testing'
import { describe, expect, it } from 'vitest'
import { aborted, LockError } from './errors.ts'
import { Lease, type Released } from './lease.ts'

function setUp(leaseMs = 1_000) {
  const clock = new ManualClock()
  const told: string[] = []
  const lease = new Lease(
    'job',
    7n,
    { from: clock.now(), forMs: leaseMs },
    {
      clock,
      async renew() {
        told.push('renew')
        lease.extend({ from: clock.now(), forMs: leaseMs })
        return true
      },
      async release(): Promise<Released> {
        told.push('release')
        return 'released'
      },
      onLost: () => void told.push('lost'),
    },
  )
  return { clock, lease, told }
}

const codeOf = (run: () => unknown): string => {
  try {
    run()
  } catch (error) {
    if (error instanceof LockError) return error.code
    throw error
  }
  return 'held'
}

describe('the end of a lease', () => {
  it('aborts the signal shortly before the store ends the lease', async () => {
    const { clock, lease, told } = setUp(1_000)
    await clock.advance(937)
    expect(lease.signal.aborted).toBe(false)
    expect(lease.remainingMs()).toBeGreaterThan(50)
    await clock.advance(1)
    expect(lease.signal.aborted).toBe(true)
    expect(lease.signal.reason).toMatchObject({ code: 'ERR_LOCK_LOST', key: 'job' })
    expect(lease.remainingMs()).toBe(0)
    expect(told).toEqual(['lost'])
  })

  it('is counted from the sending of the command, not from its reply', async () => {
    const clock = new ManualClock()
    const from = clock.now()
    await clock.advance(600)
    const lease = new Lease(
      'job',
      7n,
      { from, forMs: 1_000 },
      { clock, renew: async () => true, release: async () => 'released', onLost: () => {} },
    )
    expect(lease.remainingMs()).toBe(1_000 - 600 - 12)
    await clock.advance(338)
    expect(lease.signal.aborted).toBe(true)
  })

  it('is noticed by assertHeld after a blocked event loop, before any timer ran', () => {
    const { clock, lease } = setUp(1_000)
    clock.stall(900)
    expect(codeOf(() => lease.assertHeld())).toBe('held')
    clock.stall(90)
    expect(lease.signal.aborted).toBe(false)
    expect(codeOf(() => lease.assertHeld())).toBe('ERR_LOCK_LOST')
    expect(lease.signal.aborted).toBe(true)
    expect(lease.remainingMs()).toBe(0)
  })

  it('is noticed by assertHeld after the process was suspended, before any timer ran', () => {
    const { clock, lease } = setUp(1_000)
    clock.stall(999)
    expect(codeOf(() => lease.assertHeld())).toBe('ERR_LOCK_LOST')
  })

  it('is delayed by an extension, but not after the signal was aborted', async () => {
    const { clock, lease } = setUp(1_000)
    await clock.advance(900)
    lease.extend({ from: clock.now(), forMs: 1_000 })
    await clock.advance(900)
    expect(lease.signal.aborted).toBe(false)
    await clock.advance(100)
    expect(lease.signal.aborted).toBe(true)
    lease.extend({ from: clock.now(), forMs: 1_000 })
    expect(lease.remainingMs()).toBe(0)
    expect(codeOf(() => lease.assertHeld())).toBe('ERR_LOCK_LOST')
  })
})

describe('lease.renew()', () => {
  it('returns false without a command if the lease has ended or was released', async () => {
    const lost = setUp()
    lost.lease.revoke('gone')
    expect(await lost.lease.renew()).toBe(false)
    const released = setUp()
    await released.lease.release()
    expect(await released.lease.renew()).toBe(false)
    expect([...lost.told, ...released.told]).toEqual(['lost', 'release'])
  })
})

describe('lease.release()', () => {
  it('ends the lease at once, aborts the signal, and leaves no timer', async () => {
    const { clock, lease, told } = setUp()
    const releasing = lease.release()
    expect(lease.signal.aborted).toBe(true)
    expect(codeOf(() => lease.assertHeld())).toBe('ERR_LOCK_LOST')
    expect(await releasing).toBe('released')
    expect(told).toEqual(['release'])
    expect(clock.timers).toBe(0)
  })

  it('sends one command and returns the same result if it is called twice', async () => {
    const { clock, lease, told } = setUp()
    expect(await Promise.all([lease.release(), lease.release()])).toEqual(['released', 'released'])
    expect(told).toEqual(['release'])
    const unsure = new Lease(
      'job',
      7n,
      { from: clock.now(), forMs: 1_000 },
      { clock, renew: async () => true, release: async () => 'unknown', onLost: () => {} },
    )
    expect(await unsure.release()).toBe('unknown')
    expect(await unsure.release()).toBe('unknown')
  })

  it('returns lost for a lost lease, and still sends the release to the store', async () => {
    const { lease, told } = setUp()
    lease.revoke('too late')
    expect(await lease.release()).toBe('lost')
    expect(told).toEqual(['lost', 'release'])
  })
})

describe('a nested lease', () => {
  it('has the fence and the end of its outer lease, and needs no command', async () => {
    const { clock, lease, told } = setUp(1_000)
    await clock.advance(400)
    const nested = lease.nest()
    expect([nested.key, nested.fence]).toEqual(['job', 7n])
    expect(nested.remainingMs()).toBe(lease.remainingMs())
    expect(await nested.release()).toBe('released')
    expect(told).toEqual([])
    expect(codeOf(() => lease.assertHeld())).toBe('held')
    expect(codeOf(() => nested.assertHeld())).toBe('ERR_LOCK_LOST')
  })

  it('prevents a second nested lease until its release', async () => {
    const { lease } = setUp()
    const first = lease.nest()
    expect(codeOf(() => lease.nest())).toBe('ERR_LOCK_BUSY')
    await first.release()
    expect(codeOf(() => lease.nest())).toBe('held')
  })

  it('can contain another nested lease, which is released first', async () => {
    const { lease } = setUp()
    const outer = lease.nest()
    const inner = outer.nest()
    expect(codeOf(() => outer.nest())).toBe('ERR_LOCK_BUSY')
    await inner.release()
    await outer.nest().release()
    await outer.release()
    expect(codeOf(() => lease.nest())).toBe('held')
  })

  it('is extended with its outer lease, and its own renew extends the outer lease', async () => {
    const { clock, lease } = setUp(1_000)
    const nested = lease.nest().nest()
    await clock.advance(500)
    lease.extend({ from: clock.now(), forMs: 1_000 })
    expect(nested.remainingMs()).toBe(988)
    await clock.advance(500)
    expect(await nested.renew()).toBe(true)
    expect(lease.remainingMs()).toBe(988)
  })

  it('is lost with its outer lease, at any depth', async () => {
    const { lease } = setUp()
    const nested = lease.nest()
    const deeper = nested.nest()
    lease.revoke('another has it')
    for (const each of [nested, deeper]) {
      expect(each.signal.aborted).toBe(true)
      expect(codeOf(() => each.assertHeld())).toBe('ERR_LOCK_LOST')
    }
  })

  it('is lost if its outer lease is released first', async () => {
    const { lease } = setUp()
    const detached = lease.nest()
    await lease.release()
    expect(codeOf(() => detached.assertHeld())).toBe('ERR_LOCK_LOST')
    expect(await detached.release()).toBe('lost')
  })

  it('cannot be made from an ended lease', async () => {
    const { clock, lease } = setUp(1_000)
    clock.stall(1_000)
    expect(codeOf(() => lease.nest())).toBe('ERR_LOCK_LOST')
  })
})

describe('waiters for a nested lease', () => {
  /** This call never gives up. */
  const patient = () => () => {}

  it('enter one after another in the order of their calls', async () => {
    const { lease } = setUp()
    const entered: number[] = []
    const enter = async (n: number) => {
      await using _ = await lease.nestLater(patient)
      entered.push(n)
      await Promise.resolve()
      expect(entered.at(-1)).toBe(n)
    }
    await Promise.all([1, 2, 3, 4].map(enter))
    expect(entered).toEqual([1, 2, 3, 4])
  })

  it('are not delayed by a waiter that gave up', async () => {
    const { lease } = setUp()
    const open = lease.nest()
    const impatient = lease.nestLater((giveUp) => {
      queueMicrotask(() => giveUp(aborted('k', new Error('no time'))))
      return () => {}
    })
    const waiting = lease.nestLater(patient)
    await expect(impatient).rejects.toMatchObject({ code: 'ERR_LOCK_ABORTED' })
    await open.release()
    const outcome = await Promise.race([
      waiting.then(() => 'entered'),
      new Promise((resolve) => setImmediate(() => resolve('still waits'))),
    ])
    expect(outcome).toBe('entered')
  })

  it('are all rejected when the lease ends', async () => {
    const { lease } = setUp()
    lease.nest()
    const waiting = [lease.nestLater(patient), lease.nestLater(patient), lease.nestLater(patient)]
    const outcomes = Promise.allSettled(waiting)
    lease.revoke('another has it')
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'ERR_LOCK_LOST' } })
    }
  })
})
