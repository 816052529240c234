// Steps: parts of the work that run once over all attempts.

import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { StampedeOptions } from '../stampede-options.ts'
import { IdempotencyBench } from '../testing/idempotency-bench.ts'
import type { ScriptedRequest } from '../testing/index.ts'
import { refuse, sharedStores } from '../testing/store-doubles.ts'

let bench: IdempotencyBench
let ask: ReturnType<IdempotencyBench['route']>

beforeEach(() => {
  bench = new IdempotencyBench()
  ask = bench.route()
})

const charge = () => ({ id: 'ch-1' })
const never = () => {
  throw new Error('it was run again')
}

/** Begins an attempt after the lease of another one ended. */
async function takeover(first: ScriptedRequest): Promise<ScriptedRequest> {
  await first.end({ type: 'unanswered' })
  await bench.clock.advance(30_000)
  return ask()
}

describe('a step of an attempt', () => {
  it('runs once, and is stored in the record', async () => {
    const { attempt } = await ask()
    expect(await attempt.step('charge', charge)).toEqual({ id: 'ch-1' })
    expect(await attempt.step('charge', never)).toEqual({ id: 'ch-1' })
    expect(bench.store.take()).toEqual(['begin', 'keepStep charge'])
    const record = await bench.stampede.idempotency.inspect({ scope: 'user-1', key: 'k-1' })
    expect(record?.steps).toEqual(['charge'])
  })

  it('does not run again in an attempt that takes over, nor after a release', async () => {
    const first = await ask()
    await first.attempt.step('charge', charge)
    const second = await takeover(first)
    expect(await second.attempt.step('charge', never)).toEqual({ id: 'ch-1' })
    await second.attempt.step('receipt', async () => Buffer.from([0, 255]))
    await second.answer({ status: 500 })
    const third = await ask()
    expect(third.attempt).toMatchObject({ number: 3, isRecovery: true })
    expect(await third.attempt.step('charge', never)).toEqual({ id: 'ch-1' })
    expect(await third.attempt.step('receipt', never)).toEqual(Buffer.from([0, 255]))
  })

  it('runs once for two concurrent calls', async () => {
    const { attempt } = await ask()
    const work = vi.fn(async () => ({ id: 'ch-1' }))
    const [a, b] = await Promise.all([attempt.step('charge', work), attempt.step('charge', work)])
    expect([a, b]).toEqual([{ id: 'ch-1' }, { id: 'ch-1' }])
    expect(work).toHaveBeenCalledTimes(1)
  })

  it('gives the first attempt the same value as later ones', async () => {
    const { attempt } = await ask()
    const made = await attempt.step('charge', () => ({ at: new Date(0), gone: undefined }))
    expect(made).toEqual({ at: '1970-01-01T00:00:00.000Z' })
    expect(Object.isFrozen(made)).toBe(true)
  })

  it('stores undefined as null', async () => {
    const first = await ask()
    expect(await first.attempt.step('mail', () => {})).toBeNull()
    expect(await (await takeover(first)).attempt.step('mail', never)).toBeNull()
  })

  it('rejects with its own error if it fails, and may be tried again', async () => {
    const { attempt } = await ask()
    const error = new Error('declined')
    await expect(attempt.step('charge', () => Promise.reject(error))).rejects.toBe(error)
    const sync = () => {
      throw error
    }
    await expect(attempt.step('charge', sync)).rejects.toBe(error)
    expect(await attempt.step('charge', charge)).toEqual({ id: 'ch-1' })
    expect(bench.store.take()).toEqual(['begin', 'keepStep charge'])
  })
})

describe('a result that cannot be stored', () => {
  const cyclic: Record<string, unknown> = {}
  cyclic.self = cyclic

  it.each([
    ['a function', () => 1, 'JSON cannot represent'],
    ['a cycle', cyclic, 'cannot be written as JSON'],
    ['a bigint', 1n, 'cannot be written as JSON'],
    [
      'text over 64 KiB',
      'x'.repeat(64 * 1024),
      'more than 65536 bytes; return a reference instead',
    ],
    ['bytes over 64 KiB', new Uint8Array(64 * 1024 + 1), 'more than 65536 bytes'],
  ])('causes an error that names the step: %s', async (_, value, message) => {
    const { attempt } = await ask()
    const step = attempt.step('charge', () => value)
    await expect(step).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_VALUE',
      message: expect.stringContaining('attempt.step("charge")'),
    })
    await expect(step).rejects.toThrow(message)
    expect(bench.store.take()).toEqual(['begin'])
  })

  it('has more than 64 KiB, while exactly 64 KiB is accepted', async () => {
    const { attempt } = await ask()
    const most = new Uint8Array(64 * 1024)
    expect(await attempt.step('bytes', () => most)).toHaveLength(64 * 1024)
    expect(await attempt.step('text', () => 'x'.repeat(64 * 1024 - 2))).toHaveLength(65_534)
  })
})

describe('a step of an expired attempt', () => {
  const code = 'ERR_STAMPEDE_LEASE_LOST'

  it('does not start if the signal is aborted', async () => {
    const late = await ask()
    bench.store.always = refuse
    await bench.clock.advance(30_000)
    const step = late.attempt.step('charge', never)
    await expect(step).rejects.toBe(late.attempt.signal.reason)
  })

  it('does not start after a suspension past the lease, before any timer ran', async () => {
    const late = await ask()
    bench.store.always = refuse
    bench.clock.stall(30_000)
    await expect(late.attempt.step('charge', never)).rejects.toMatchObject({ code })
    expect(late.attempt.signal.aborted).toBe(true)
  })

  it('rejects if another attempt has taken over meanwhile', async () => {
    const { a, b } = sharedStores()
    const { clock } = bench
    const here = new IdempotencyBench({ clock, store: a })
    const there = new IdempotencyBench({ clock, store: b })
    const late = await here.route()()
    const step = late.attempt.step('charge', async () => {
      // This process is suspended, so it does not notice the end of its lease.
      here.rt.keeper.stop()
      await there.stampede.idempotency.release({ scope: 'user-1', key: 'k-1' }, { force: true })
      await there.route()()
    })
    await expect(step).rejects.toMatchObject({
      code,
      message: expect.stringContaining('step "charge" was not stored'),
    })
  })
})

describe('a step while the store is unavailable', () => {
  it('still runs, and an event reports it', async () => {
    const { attempt } = await ask()
    bench.store.next('keepStep', refuse)
    bench.events.take()
    expect(await attempt.step('charge', charge)).toEqual({ id: 'ch-1' })
    expect(bench.events.take()).toEqual(['store.failed keep-step'])
    expect(await attempt.step('charge', never)).toEqual({ id: 'ch-1' })
  })
})

describe('the name of a step', () => {
  it.each([[''], ['two words'], ['ä'], ['x'.repeat(101)], [undefined as never], [7 as never]])(
    'is rejected at once as %j, also for a child key',
    async (name) => {
      const { attempt } = await ask()
      const refused = /attempt\.(step|childKey): name.*use 1 to 100 visible ASCII characters/
      expect(() => attempt.step(name, charge)).toThrow(refused)
      expect(() => attempt.childKey(name)).toThrow(refused)
    },
  )

  it('may be that of an object property', async () => {
    const { attempt } = await ask()
    for (const name of ['__proto__', 'constructor', 'toString']) {
      expect(await attempt.step(name, () => name)).toBe(name)
    }
  })
})

it('a child key is the same in every attempt, and reveals nothing of the key', async () => {
  const first = await ask()
  const key = first.attempt.childKey('charge')
  expect(key).toMatch(/^[\w-]{43}$/)
  expect(first.attempt.childKey('receipt')).not.toBe(key)
  expect((await takeover(first)).attempt.childKey('charge')).toBe(key)
})

describe('a sealed step', () => {
  const encryptionKeys = ['k'.repeat(32)]

  /** The stored bytes of a step, and the key under which they are stored. */
  async function stored(idempotency: StampedeOptions['idempotency'] = {}): Promise<Buffer> {
    bench = new IdempotencyBench({ idempotency })
    ask = bench.route()
    const frames: Uint8Array[] = []
    vi.spyOn(bench.store, 'keepStep').mockImplementation(async (_grant, _name, frame) => {
      frames.push(frame)
      return 'kept'
    })
    await (await ask()).attempt.step('charge', charge)
    return Buffer.concat(frames)
  }

  it('is not readable in the store', async () => {
    expect((await stored({})).toString()).toContain('ch-1')
    expect((await stored({ encryptionKeys })).toString()).not.toContain('ch-1')
  })

  it('is readable by the next attempt, and does not run again without the key', async () => {
    bench = new IdempotencyBench({ idempotency: { encryptionKeys } })
    ask = bench.route()
    const first = await ask()
    await first.attempt.step('charge', charge)
    const second = await takeover(first)
    expect(await second.attempt.step('charge', never)).toEqual({ id: 'ch-1' })
    const third = await takeover(second)
    vi.spyOn(bench.rt.seal, 'open').mockReturnValue(undefined)
    await expect(third.attempt.step('charge', never)).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_VALUE',
      message: expect.stringContaining('the stored result cannot be read'),
    })
  })
})
