import { memoryStore } from '@stampede/core'
import { describe, expect, it } from 'vitest'
import { createLocks } from './create-locks.ts'
import { createQuorumLocks } from './quorum.ts'

const store = () => memoryStore()
// Values that plain JavaScript may pass.
const make = (options: unknown) => () => createLocks(options as never)
const makeQuorum = (stores: unknown, options?: unknown) => () =>
  createQuorumLocks(stores as never, options as never)

describe('an invalid option of createLocks', () => {
  it.each([
    [
      undefined,
      'createLocks.store: received undefined; pass redisStore(redis), postgresStore(pool) or memoryStore()',
    ],
    [[], 'createLocks: received'],
    [{ store: {} }, 'createLocks.store: received'],
    [{ store: store(), lease: 1 }, 'createLocks.lease: received 1; there is no such option; '],
    [{ store: store(), leasMs: 1 }, 'did you mean leaseMs?'],
    [{ store: store(), leaseMs: 49 }, 'createLocks.leaseMs: received 49; use a whole number'],
    [{ store: store(), leaseMs: '1s' }, 'createLocks.leaseMs: received "1s"; use a whole number'],
    [
      { store: store(), waitMs: 1 },
      'createLocks.waitMs: received 1; there is no such option; pass',
    ],
    [{ store: store(), maxHoldMs: 0 }, 'createLocks.maxHoldMs: received 0; use a whole number'],
    [{ store: store(), wait: 'pull' }, 'createLocks.wait: received "pull"; use '],
    [
      { store: store(), prefix: 'a' },
      'createLocks.prefix: received "a"; there is no such option; ',
    ],
    [{ store: store(), prefix: 'a' }, 'prefix is an option of the store: redisStore(redis, { pre'],
  ])('is named in the error with its value and the fix: %o', (options, message) => {
    expect(make(options)).toThrow(
      expect.objectContaining({
        code: 'ERR_STAMPEDE_OPTION',
        message: expect.stringContaining(message),
      }),
    )
  })

  it('is not reported for undefined', () => {
    expect(make({ store: store(), leaseMs: undefined })).not.toThrow()
  })
})

describe('an invalid argument of locks.acquire()', () => {
  const locks = createLocks({ store: store() })
  const acquire = (key: unknown, options?: unknown) => locks.acquire(key as never, options as never)

  it.each([
    ['', undefined, 'acquire: key: received ""; use a non-empty string'],
    [7, undefined, 'acquire: key: received 7; use a non-empty string'],
    ['k', { leaseMs: 10 }, 'acquire.leaseMs: received 10; use a whole number'],
    ['k', { waitMs: Number.NaN }, 'acquire.waitMs: received NaN; use a whole number'],
    ['k', { waitMs: -1 }, 'acquire.waitMs: received -1; use a whole number'],
    ['k', { signal: {} }, 'acquire.signal: received'],
    ['k', { timeout: 1 }, 'acquire.timeout: received 1; there is no such option'],
    ['k', { within: {} }, 'acquire.within: received'],
    ['k', 5, 'acquire: received 5; pass an object of options'],
  ])('is named in the error with its value and the fix: %o %o', async (key, options, message) => {
    await expect(acquire(key, options)).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_OPTION',
      message: expect.stringContaining(message),
    })
  })

  it('is reported for a parent lease of another key', async () => {
    const lease = await locks.acquire('one')
    await expect(locks.acquire('two', { within: lease })).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_OPTION',
      message: 'acquire.within: received "one"; pass a lease of two; this one is of another key',
    })
    await lease.release()
  })

  it('is also reported for locks.run() without a function', async () => {
    await expect(locks.run('k', {} as never)).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_OPTION',
      message: expect.stringContaining('run: fn: received'),
    })
    expect(await locks.tryAcquire('k')).not.toBeNull()
  })
})

describe('locks.tryAcquire()', () => {
  it('rejects the option waitMs, because tryAcquire never waits', async () => {
    const locks = createLocks({ store: store() })
    await expect(locks.tryAcquire('k', { waitMs: 5 } as never)).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_OPTION',
    })
  })
})

describe('a store passed to createLocks twice', () => {
  it('is rejected the second time, because the second would take grants of the first', () => {
    const shared = store()
    createLocks({ store: shared })
    expect(make({ store: shared })).toThrow(
      expect.objectContaining({ code: 'ERR_STAMPEDE_OPTION' }),
    )
  })
})

describe('an invalid argument of createQuorumLocks', () => {
  it.each([
    [undefined, undefined, 'createQuorumLocks: stores: received undefined; pass an array'],
    [[], undefined, 'createQuorumLocks: stores: received'],
    [[{}], undefined, 'createQuorumLocks: stores: received'],
    [[store()], { nodeTimeoutMs: 0 }, 'createQuorumLocks.nodeTimeoutMs: received 0; use a whole'],
    [[store()], { leaseMs: 60_000 }, 'there is no such option; pass it to acquire or run: { lease'],
    [
      [store()],
      { waitMs: 1 },
      'createQuorumLocks.waitMs: received 1; there is no such option; pass',
    ],
    [[store()], { nodeTimeout: 1 }, 'did you mean nodeTimeoutMs?'],
    [[store()], { clock: {} }, 'createQuorumLocks.clock: received'],
    [[store()], { clock: 1 }, 'createQuorumLocks.clock: received 1; there is no such option'],
    [[store()], { prefix: 1 }, 'prefix is an option of the store: redisStore(redis, { prefix })'],
  ])('is named in the error with its value and the fix: %o %o', (stores, options, message) => {
    expect(makeQuorum(stores, options)).toThrow(
      expect.objectContaining({
        code: 'ERR_STAMPEDE_OPTION',
        message: expect.stringContaining(message),
      }),
    )
  })
})

describe('a lock key', () => {
  const quorum = createQuorumLocks([store(), store(), store()])
  const locks = createLocks({ store: store() })
  const callsOf = (name: string, each: Pick<typeof locks, 'acquire' | 'tryAcquire' | 'run'>) =>
    [
      [`${name}.acquire`, (key: string) => each.acquire(key)],
      [`${name}.tryAcquire`, (key: string) => each.tryAcquire(key)],
      [`${name}.run`, (key: string) => each.run(key, () => undefined)],
    ] as const
  const calls = [
    ...callsOf('createLocks', locks),
    ...callsOf('createQuorumLocks', quorum as unknown as typeof locks),
  ]
  const HALVES = ['\ud800', '\ud801', '\udbff', '\udc00', '\udfff', '\0']
  const refused = HALVES.flatMap((half) => [half, `a${half}`, `${half}b`, `a${half}b`, `🧺${half}`])

  it.each(calls)(
    'is refused by %s if it has NUL or a lone surrogate, at any place',
    async (_, call) => {
      for (const key of [...refused, '\udc00\ud800']) {
        await expect(call(key), JSON.stringify(key)).rejects.toMatchObject({
          code: 'ERR_STAMPEDE_OPTION',
          message: expect.stringMatching(/key: received .*without NUL and lone surrogates/),
        })
      }
    },
  )

  it.each(calls)('may have every whole character: %s', async (_, call) => {
    for (const key of ['🧺', 'ÄÖ ß 日本', ' \r\n\t', '\ufffd', '{}:*', '\ud83e\uddfa']) {
      await (await call(key))?.release()
    }
  })
})
