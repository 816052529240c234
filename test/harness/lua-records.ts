// Records of idempotency keys for direct calls of their scripts, and readers of the records that a
// script left. They are planted as they would be after time, crashes, other versions or vandals.

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
  serverMs,
  tests,
} from './lua-scripts.ts'

/** How long a planted record is still kept; scripts are told other times. */
export const PLANTED_MS = 500_000
export const KEEP_MS = 70_000
export const NOW = expect.any(Number)

/** As we write it: it runs, and was fully known before. */
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
/** Uncertain because its lease ran out: its holder may still tell. */
export const DOUBTED = { ...LAPSED, s: 'uncertain' }

/** The greatest whole number that is counted on. */
export const LARGEST = '9007199254740990'
const TOO_LARGE = ['9007199254740991', '9007199254740993', '9'.repeat(20), '9'.repeat(400)]
/** No numbers as we write them. */
export const NONSENSE = ['', 'x', '-5', '1.5', '1e3', '0x10', 'nan', 'inf', ' 1', ...TOO_LARGE]

export async function plant(fields: Fields): Promise<void> {
  await redis.del(key)
  await record(fields)
  await redis.pexpire(key, PLANTED_MS)
}

/** The record is kept that long, from a moment ago. */
export async function expectKept(ms: number): Promise<void> {
  const left = await redis.pttl(key)
  expect(left).toBeGreaterThan(ms - 5_000)
  expect(left).toBeLessThanOrEqual(ms)
}

/** The record is as it was before, kept as long, and nobody was told anything. */
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

/** Up to when something was wanted: not any more, and still. */
export const late = async (): Promise<number> => (await serverMs()) - 1
export const inTime = async (): Promise<number> => (await serverMs()) + 10_000

/** Listens as these processes, and to what all processes are told of an operator's word. */
export async function hearWakes(...names: string[]): Promise<void> {
  await listener.subscribe(`settled ${tests}`, ...names.map((name) => `wake ${tests} ${name}`))
}

/** With one key, and none but that. */
export const call = (script: Script, args: Arguments, client = redis): Promise<unknown> =>
  client.eval(script.source, script.keys, key, ...args)
