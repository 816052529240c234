// Records of idempotency keys for direct calls of their scripts, and readers of the records
// afterwards. They are planted in states that time, crashes, other versions or hostile writers
// would leave.

import { expect } from 'vitest'
import type { Script } from '../../packages/redis/src/protocol/scripts.generated.ts'
import {
  type Arguments,
  allHeard,
  type Fields,
  FUTURE,
  fieldsOf,
  key,
  listener,
  PAST,
  record,
  redis,
  tests,
} from './lua-scripts.ts'

/** The remaining TTL of a planted record. Scripts are called with other durations. */
export const PLANTED_MS = 500_000
export const KEEP_MS = 70_000
export const NOW = expect.any(Number)

/** A valid record: its attempt runs, and its fingerprints are complete. */
export const SOUND = {
  v: '1',
  s: 'running',
  exact: 'e',
  canonical: 'c',
  token: 'holder',
  until: String(FUTURE),
  fence: '7',
  attempt: '3',
  lost: '1',
  recovery: '1',
  created: '1000',
  ended: '',
  's:pay': 'paid',
}
/** SOUND without those fields. */
export function less(...names: string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(SOUND).filter(([name]) => !names.includes(name)))
}
const OVER = { ...less('token', 'until'), ended: 'before' }
export const LAPSED = { ...SOUND, until: String(PAST) }
export const COMPLETED = { ...OVER, s: 'completed', frame: 'bytes' }
export const RELEASED = { ...OVER, s: 'released' }
export const UNCERTAIN = { ...OVER, s: 'uncertain' }

/** The greatest whole number that the scripts accept. */
export const LARGEST = '9007199254740990'
const TOO_LARGE = ['9007199254740991', '9007199254740993', '9'.repeat(20), '9'.repeat(400)]
/** Values that are not numbers in our format. */
export const NONSENSE = ['', 'x', '-5', '1.5', '1e3', '0x10', 'nan', 'inf', ' 1', ...TOO_LARGE]

export async function plant(fields: Fields): Promise<void> {
  await redis.del(key)
  await record(fields)
  await redis.pexpire(key, PLANTED_MS)
}

/** Checks that the record has this TTL, with a tolerance of 5 s. */
export async function expectKept(ms: number): Promise<void> {
  const left = await redis.pttl(key)
  expect(left).toBeGreaterThan(ms - 5_000)
  expect(left).toBeLessThanOrEqual(ms)
}

/** Checks that the record and its TTL are unchanged, and that no message was published. */
export async function unchanged<T>(work: () => Promise<T>): Promise<T> {
  const [before, left] = [await fieldsOf(), await redis.pttl(key)]
  const reply = await work()
  expect(await fieldsOf()).toEqual(before)
  const leftNow = await redis.pttl(key)
  expect(leftNow).toBeLessThanOrEqual(left)
  expect(leftNow).toBeGreaterThan(left - 5_000)
  expect(await allHeard()).toEqual([])
  return reply
}

/**
 * Subscribes as these processes, and to the messages that all processes get about an operator's
 * decision.
 */
export async function hearWakes(...names: string[]): Promise<void> {
  await listener.subscribe(`settled ${tests}`, ...names.map((name) => `wake ${tests} ${name}`))
}

/** Calls a script with this key, and no other. */
export const call = (script: Script, args: Arguments, client = redis): Promise<unknown> =>
  client.eval(script.source, script.keys, key, ...args)
