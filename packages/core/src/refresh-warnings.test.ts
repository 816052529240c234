import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { createStampede, type Stampede } from './index.ts'
import { ManualClock, settled } from './testing/index.ts'

let clock: ManualClock
let stampede: Stampede
let warned: string[]

beforeEach(() => {
  clock = new ManualClock()
  stampede = createStampede({ clock })
  warned = []
  vi.spyOn(process, 'emitWarning').mockImplementation((text, options) => {
    expect(options).toMatchObject({ type: 'StampedeRefreshWarning', code: 'STAMPEDE_REFRESH' })
    warned.push(String(text))
  })
})

afterEach(async () => {
  vi.restoreAllMocks()
  await stampede.close()
})

const STALE = 'The stale value is served until its stale window ends.'
const OPTIONS = { ttlMs: 1_000, staleWhileRevalidateMs: 600_000, originTimeoutMs: 5_000 }

/** Fills a key, and then refreshes it once for each factory. */
async function refresh(key: string, ...factories: ReadonlyArray<() => unknown>): Promise<void> {
  await stampede.getOrSet(key, () => 'first', OPTIONS)
  for (const factory of factories) {
    await clock.advance(2_000)
    await stampede.getOrSet(key, factory, OPTIONS)
    await settled()
  }
}

const ok = () => 'next'
const fail = () => {
  throw new Error('no database')
}
const fails = (times: number) => Array.from({ length: times }, () => fail)

it('a refresh of getOrSet that fails causes a warning with key and reason', async () => {
  await refresh('rates:eur', ok, fail, fail)
  expect(warned).toEqual([
    `getOrSet("rates:eur"): a background refresh failed: no database. ${STALE}`,
  ])
})

it('a data cache has its name in the warning', async () => {
  const rates = stampede.cache('rates', OPTIONS)
  await rates.getOrSet('eur', () => 1)
  await clock.advance(2_000)
  await rates.getOrSet('eur', fail)
  await settled()
  expect(warned).toEqual([
    `getOrSet("rates:eur"): a background refresh failed: no database. ${STALE}`,
  ])
})

it('a refresh that always fails causes a second warning with the count, and no third', async () => {
  await refresh('k', ...fails(9))
  expect(warned).toHaveLength(1)
  await refresh('k', ...fails(30))
  expect(warned.slice(1)).toEqual([
    `getOrSet("k"): 10 background refreshes in a row failed: no database. ${STALE} ` +
      'Fix the cause: after that window, callers get the error.',
  ])
})

it('a refresh that succeeds resets the count of failures', async () => {
  for (let i = 0; i < 3; i++) await refresh('k', ...fails(9), ok)
  expect(warned).toHaveLength(1)
})

it('a refresh that takes longer than originTimeoutMs counts as failed', async () => {
  await refresh('k', () => new Promise(() => {}))
  await clock.advance(5_000)
  await settled()
  expect(warned).toHaveLength(1)
  expect(warned[0]).toContain('did not finish within originTimeoutMs (5000)')
})

it('at most ten keys of a Stampede cause warnings', async () => {
  for (let i = 0; i < 15; i++) await refresh(`k${i}`, ...fails(12))
  expect(warned).toHaveLength(20)
})

it('a first fill that fails causes no warning, because its caller gets the error', async () => {
  await expect(stampede.getOrSet('k', fail, OPTIONS)).rejects.toThrow('no database')
  expect(warned).toEqual([])
})
