// Jobs: idempotency keys without HTTP.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { IdempotencyBench } from '../testing/idempotency-bench.ts'
import { ScriptedOrigin, settled } from '../testing/index.ts'
import { refuse } from '../testing/store-doubles.ts'
import type { IdempotentOptions } from './run-idempotent.ts'

let bench: IdempotencyBench
let idempotent: IdempotencyBench['stampede']['idempotent']

beforeEach(() => {
  bench = new IdempotencyBench()
  idempotent = bench.stampede.idempotent
})
afterEach(() => bench.end())

const never = () => {
  throw new Error('it was run again')
}
const coded = (code: string, message: RegExp) => ({
  name: 'StampedeError',
  code,
  message: expect.stringMatching(message),
})

describe('a new job', () => {
  it('runs once, and later calls get its result', async () => {
    const work = vi.fn(async () => ({ id: 7 }))
    expect(await idempotent('invoice:7', work)).toEqual({ id: 7 })
    expect(await idempotent('invoice:7', never)).toEqual({ id: 7 })
    bench.rt.attempts.forgetDone()
    expect(await idempotent('invoice:7', never)).toEqual({ id: 7 })
    expect(work).toHaveBeenCalledTimes(1)
    expect(bench.events.take()).toEqual([
      'answered started',
      'finished completed, finished',
      'answered replayed-l1',
      'answered replayed',
    ])
    expect(bench.store.take()).toEqual(['begin', 'finish completed', 'begin'])
  })

  it('gets its attempt as an argument', async () => {
    await idempotent('invoice:7', async ({ number, isRecovery, fence, signal, step }) => {
      expect([number, isRecovery, signal.aborted]).toEqual([1, false, false])
      expect(fence).toBeGreaterThan(0n)
      expect(await step('charge', () => 1)).toBe(1)
    })
  })

  it.each([
    ['undefined, as null', undefined, null],
    ['null', null, null],
    ['text', 'made', 'made'],
    ['false', false, false],
    ['0', 0, 0],
    ['bytes', new Uint8Array([0, 255]), Buffer.from([0, 255])],
    ['the value that JSON makes of it', { at: new Date(0) }, { at: '1970-01-01T00:00:00.000Z' }],
  ])('gives all callers the same result: %s', async (_, value, result) => {
    expect(await idempotent('job', () => value)).toEqual(result)
    expect(await idempotent('job', never)).toEqual(result)
  })

  it('is not run again if its result has no JSON form, because the job was done', async () => {
    const cycle: Record<string, unknown> = {}
    cycle.self = cycle
    for (const [key, value] of Object.entries({ cycle, bigint: 1n, never, symbol: Symbol('x') })) {
      expect(await idempotent(key, () => value as unknown)).toBe(value)
      const again = idempotent(key, never)
      await expect(again).rejects.toMatchObject(
        coded('ERR_STAMPEDE_NOT_RETAINED', new RegExp(`^"${key}" was done`)),
      )
    }
  })

  it('stores no result after withoutBody(), but counts as done', async () => {
    const result = await idempotent('job', ({ withoutBody }) => {
      withoutBody()
      return { secret: 1 }
    })
    expect(result).toEqual({ secret: 1 })
    await expect(idempotent('job', never)).rejects.toMatchObject(
      coded('ERR_STAMPEDE_NOT_RETAINED', /was done/),
    )
  })

  it('rejects with the error that its function throws, and may run again', async () => {
    const error = new Error('declined')
    await expect(idempotent('job', () => Promise.reject(error))).rejects.toBe(error)
    expect(bench.events.take()).toEqual(['answered started', 'finished released, finished'])
    expect(await idempotent('job', ({ number }) => number)).toBe(2)
  })

  it('does not run again if its function throws after complete() or uncertain()', async () => {
    const error = new Error('too late')
    for (const verdict of ['keep', 'uncertain'] as const) {
      const job = idempotent(verdict, (attempt) => {
        attempt[verdict]()
        throw error
      })
      await expect(job).rejects.toBe(error)
      await expect(idempotent(verdict, never)).rejects.toMatchObject(
        coded('ERR_STAMPEDE_UNCERTAIN', /settle it with stampede\.idempotency\.resolve/),
      )
    }
  })

  it('gives its result to its own caller only, after release()', async () => {
    const job = idempotent('job', ({ release }) => {
      release()
      return 'nothing to do yet'
    })
    expect(await job).toBe('nothing to do yet')
    expect(await idempotent('job', () => 'done')).toBe('done')
  })
})

describe('a repeated job', () => {
  it('is rejected as in progress while the first one runs', async () => {
    const origin = new ScriptedOrigin<number>()
    const first = idempotent('job', origin.factory)
    await settled()
    await expect(idempotent('job', never)).rejects.toMatchObject(
      coded('ERR_STAMPEDE_IN_PROGRESS', /"job" is running elsewhere/),
    )
    origin.run(0).resolve(1)
    expect(await first).toBe(1)
    expect(bench.events.take()).toContain('answered in-progress')
  })

  it('can wait while the first one runs', async () => {
    const origin = new ScriptedOrigin<number>()
    const first = idempotent('job', origin.factory)
    await settled()
    const second = idempotent('job', never, { onBusy: 'wait' })
    await settled()
    origin.run(0).resolve(1)
    expect(await Promise.all([first, second])).toEqual([1, 1])
    expect(bench.events.take()).toContain('answered replayed-after-wait')
  })

  it('is refused with another input, and accepted with an equal one', async () => {
    await idempotent('job', () => 1, { input: { a: 1, b: [2] } })
    expect(await idempotent('job', never, { input: { b: [2], a: 1 } })).toBe(1)
    for (const input of [{ a: 1 }, undefined, null, '', '{"a":1,"b":[2]}']) {
      await expect(idempotent('job', never, { input })).rejects.toMatchObject(
        coded('ERR_STAMPEDE_KEY_REUSED', /"job" was used with another input/),
      )
    }
  })

  it('differs from a job in another scope, and from a request with the same key', async () => {
    expect(await idempotent('k-1', () => 'a')).toBe('a')
    expect(await idempotent('k-1', () => 'b', { scope: 'user-1' })).toBe('b')
    const request = await bench.route()({ key: 'k-1' })
    expect(request.isRunning).toBe(true)
    await request.answer()
  })

  it('runs again after its holder died, unless onLeaseExpired forbids it', async () => {
    const policies: IdempotentOptions[] = [{}, { onLeaseExpired: 'uncertain' }]
    const [takeover, kept] = policies.map((options, i) => {
      const run = (work: (a: { isRecovery: boolean }) => unknown) =>
        idempotent(`job-${i}`, work, options)
      void run(() => new Promise(() => {}))
      return run
    })
    await settled()
    for (const running of bench.rt.attempts.running()) running.abandon('it died')
    await bench.clock.advance(30_000)
    expect(await takeover?.(({ isRecovery }) => isRecovery)).toBe(true)
    await expect(kept?.(never)).rejects.toMatchObject({ code: 'ERR_STAMPEDE_UNCERTAIN' })
  })

  it("is rejected with the store's error while the store is unavailable", async () => {
    bench.store.next('begin', refuse)
    await expect(idempotent('job', never)).rejects.toThrow('the store is away')
    expect(bench.events.take()).toEqual(['store.failed begin', 'answered unavailable'])
  })

  it('gets the result from this process if the store could not store it', async () => {
    bench.store.next('finish', refuse)
    expect(await idempotent('job', () => 1)).toBe(1)
    expect(await idempotent('job', never)).toBe(1)
  })
})

describe('a job with invalid arguments', () => {
  it.each<[string, unknown, unknown, unknown, RegExp]>([
    ['no key', undefined, never, {}, /^idempotent: key: received undefined; name the job/],
    ['an empty key', '', never, {}, /^idempotent: key: received ""/],
    ['no job', 'job', undefined, {}, /^idempotent: work: received undefined; pass the job/],
    ['a scope that is not a string', 'job', never, { scope: 7 }, /^idempotent\.scope: received 7/],
    ['input with a bigint', 'job', never, { input: 1n }, /^idempotent\.input: received 1n/],
    ['a bad lease', 'job', never, { leaseMs: 1 }, /^idempotent\.leaseMs: received 1; use/],
    ['a function for a lost lease', 'job', never, { onLeaseExpired: never }, /onLeaseExpired/],
    ['a misspelt option', 'job', never, { inputs: 1 }, /did you mean input\?/],
  ])('is rejected before any store command: %s', async (_, key, work, options, message) => {
    const job = idempotent(key as string, work as () => 1, options as object)
    await expect(job).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_OPTION',
      message: expect.stringMatching(message),
    })
    expect(bench.store.take()).toEqual([])
  })
})
