// One or two processes on one RecordStore, whose flights, clock and store a test controls. A test
// file calls `begin` or `beginTwo` before each test, and `end` after it.

import type { FillResult, Lead, Policy, Resolution } from '../engine/types.ts'
import { type StoredEntry, UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import { dataKey } from '../ports/key.ts'
import type { Lifetimes } from '../ports/store.ts'
import type { Runtime } from '../runtime.ts'
import { createStampede, runtimeOf, type Stampede } from '../stampede.ts'
import type { StampedeOptions } from '../stampede-options.ts'
import { ManualClock, settled } from './manual-clock.ts'
import { resolve, type ScriptedCaller } from './resolve.ts'
import { ScriptedOrigin } from './scripted-origin.ts'
import { FaultyStore, sharedStores } from './store-doubles.ts'
import { Transcript } from './transcript.ts'

/** The internal key of getOrSet('k'). */
export const KEY: string = dataKey('k')
export const NO_L1 = { l1: { maxBytes: 0 } } as const

export let clock: ManualClock
export let transcript: Transcript
/** The two processes of `beginTwo`, with their stores. */
export let a: Stampede
export let b: Stampede
export let stores: { a: FaultyStore; b: FaultyStore }
let open: Stampede[]

export function begin(): void {
  clock = new ManualClock()
  transcript = new Transcript()
  open = []
}

export function beginTwo(optionsOfB: StampedeOptions = {}): void {
  begin()
  stores = sharedStores()
  a = create(stores.a, {}, 'a')
  b = create(stores.b, optionsOfB, 'b')
}

/** Ends a test. No flight, lease, concurrency slot or timer may be left. */
export async function end(): Promise<void> {
  await clock.advance(120_000)
  const left = open.map((stampede) => {
    const { active, unleased } = stampede.stats()
    return { ...active, ...unleased }
  })
  if (left.some((each) => Object.values(each).some((n) => n > 0)) || clock.timers > 0) {
    throw new Error(`left: ${JSON.stringify(left)}, ${clock.timers} timers`)
  }
  await Promise.all(open.map((stampede) => stampede.close()))
}

export function create(
  store: FaultyStore | undefined,
  options: StampedeOptions = {},
  name = '',
): Stampede {
  const stampede = createStampede({ ...(store && { store }), clock, ...options })
  open.push(stampede)
  transcript.record(stampede, name)
  return stampede
}

/** One process. */
export interface OneProcess {
  readonly store: FaultyStore
  readonly stampede: Stampede
  readonly origin: ScriptedOrigin<unknown>
  readonly get: (more?: object) => Promise<unknown>
  /** Calls `get`, and ends its run with this value. */
  readonly fill: (value: unknown, more?: object) => Promise<unknown>
  readonly rt: Runtime
}

export interface TwoProcesses {
  readonly a: Stampede
  readonly b: Stampede
  readonly originA: ScriptedOrigin<unknown>
  readonly originB: ScriptedOrigin<unknown>
  readonly getA: (more?: object) => Promise<unknown>
  readonly getB: (more?: object) => Promise<unknown>
  readonly fillA: (value: unknown, more?: object) => Promise<unknown>
  readonly fillB: (value: unknown, more?: object) => Promise<unknown>
  readonly storeA: FaultyStore
  readonly storeB: FaultyStore
}

export function setUp(options: StampedeOptions = {}): OneProcess {
  const store = new FaultyStore()
  const stampede = create(store, options)
  const origin = new ScriptedOrigin<unknown>()
  const get = (more = {}) => stampede.getOrSet('k', origin.factory, { ttlMs: 1_000, ...more })
  return { store, stampede, origin, get, fill: filler(origin, get), rt: runtimeOf(stampede) }
}

/** A call of `get` whose run ends with a value. */
function filler(
  origin: ScriptedOrigin<unknown>,
  get: (more?: object) => Promise<unknown>,
): OneProcess['fill'] {
  return async (value, more) => {
    const run = origin.calls
    const asked = get(more)
    await settled()
    origin.run(run).resolve(value)
    return asked
  }
}

/** Two processes. */
export function setUpTwo(options: StampedeOptions = {}): TwoProcesses {
  const { a: storeA, b: storeB } = sharedStores()
  const a = create(storeA, options, 'a')
  const b = create(storeB, options, 'b')
  const originA = new ScriptedOrigin<unknown>()
  const originB = new ScriptedOrigin<unknown>()
  const getA = (more = {}) => a.getOrSet('k', originA.factory, { ttlMs: 1_000, ...more })
  const getB = (more = {}) => b.getOrSet('k', originB.factory, { ttlMs: 1_000, ...more })
  const [fillA, fillB] = [filler(originA, getA), filler(originB, getB)]
  return { a, b, originA, originB, getA, getB, fillA, fillB, storeA, storeB }
}

/** The state of a promise, without waiting: its value, or the code or message of its error. */
export function outcome<T>(promise: T | Promise<T>): { now: unknown } {
  const box: { now: unknown } = { now: 'pending' }
  Promise.resolve(promise).then(
    (value) => {
      box.now = value
    },
    (error) => {
      box.now = error.code ?? error.message
    },
  )
  return box
}

/** The `outcome` of a promise, after all promises have settled that need no time. */
export async function begun<T>(promise: T | Promise<T>): Promise<{ now: unknown }> {
  const box = outcome(promise)
  await settled()
  return box
}

export async function microtasks(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await Promise.resolve()
}

export const STEPS: readonly number[] = Array.from({ length: 24 }, (_, i) => i)

export const POLICY: Policy = {
  softTimeoutMs: undefined,
  leaseMs: 600,
  waitMs: 30_000,
  originTimeoutMs: 3_000,
  revalidate: 'background',
}

/** A caller of one key, whose runs of the origin end when the test ends them. */
export function scripted(key: string = KEY): {
  origin: ScriptedOrigin<FillResult>
  leads: Lead[]
  caller: ScriptedCaller
  /** Resolves the key, leads, and ends the run of the origin with this result. */
  lead: (rt: Runtime, result: FillResult, policy?: Policy) => Promise<void>
} {
  const origin = new ScriptedOrigin<FillResult>()
  const leads: Lead[] = []
  const run = (lead: Lead) => {
    leads.push(lead)
    return origin.factory()
  }
  const caller: ScriptedCaller = { lead: run, refresh: run }
  const lead = async (rt: Runtime, result: FillResult, policy = POLICY) => {
    const index = origin.calls
    const led = await begun(resolve(rt, key, policy, caller))
    await origin.run(index).resolve(result)
    const { type } = led.now as Resolution
    if (type !== 'led') throw new Error(`the caller did not lead: ${type}`)
  }
  return { origin, leads, caller, lead }
}

export const entry: StoredEntry = {
  type: 'value',
  encoding: 'json',
  body: Buffer.from('1'),
  provenance: UNKNOWN_PROVENANCE,
}
export const LIVES: Lifetimes = {
  freshMs: 1_000,
  staleWhileRevalidateMs: 0,
  staleIfErrorMs: 0,
  keepMs: 0,
  physicalMs: 3_000,
}
type Store = Extract<FillResult, { type: 'store' }>
export const STORE: Store = {
  type: 'store',
  entry,
  lifetimes: LIVES,
  get bornAt() {
    return clock.now()
  },
}
export const PASS: FillResult = { type: 'pass', reason: 'set-cookie', remember: true }
export const FAILURE: FillResult = {
  type: 'failure',
  failure: { status: 503, message: 'down' },
  error: undefined,
}
