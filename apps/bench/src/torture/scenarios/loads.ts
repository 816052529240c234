// Scenarios with a purge during a load, and with an origin that fails or hangs.
import { setTimeout as sleep } from 'node:timers/promises'
import { counted, decide, tally, type Verdict } from '../../lib/verdict.ts'
import type { Instance } from '../peer.ts'
import {
  inWords,
  NotSupported,
  type Reached,
  type Result,
  type Stage,
  shown,
  until,
  watch,
} from '../stage.ts'
import type { Scenario } from './scenario.ts'

const TAG = 'product:42'
const PURGE_MS = 3_000
/** Some purges wait for the load, so the load must not wait for the purge without a limit. */
const PATIENCE_MS = 300

/** A gate that holds a load. */
function gate() {
  let open: () => void = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}

export interface Overtaken {
  readonly by: 'the loading process' | 'another process'
  readonly purge: Result
  /** The values that both processes read after the load. */
  readonly loader: readonly string[]
  readonly other: readonly string[]
}

type Purge = (instance: Instance, key: string) => Promise<unknown>

async function overtake(
  { origin }: Stage,
  [loader, other]: readonly [Instance, Instance],
  by: Overtaken['by'],
  purge: Purge,
): Promise<Overtaken> {
  const key = `overtaken by ${by}`
  const { opened, open } = gate()
  origin.reset()
  origin.value = 'old'
  origin.during = () => opened
  const load = watch(() => loader.get(key))
  await origin.begun(1)
  origin.value = 'new'
  const purged = watch(() => purge(by === 'the loading process' ? loader : other, key), PURGE_MS)
  await Promise.race([purged, sleep(PATIENCE_MS)])
  await sleep(100)
  open()
  await Promise.all([load, purged])
  await sleep(100)
  const read = { loader: [] as string[], other: [] as string[] }
  const words = (result: Result) =>
    result.kind === 'value' ? shown(result.value) : inWords(result)
  // Some caches respond from one tier and check the other in the background, hence three reads.
  for (let round = 0; round < 3; round += 1) {
    read.loader.push(words(await watch(() => loader.get(key), 2_000)))
    read.other.push(words(await watch(() => other.get(key), 2_000)))
    await sleep(100)
  }
  return { by, purge: await purged, ...read }
}

export function judgeOvertaken(rounds: readonly Overtaken[]): Verdict {
  const seen = rounds.map(({ by, purge, loader, other }) => {
    const failed = purge.kind === 'value' ? '' : ` (${inWords(purge)})`
    return `Purge by ${by}${failed}: the loading process read ${tally(loader)}, the other process ${tally(other)}.`
  })
  const read = rounds.flatMap(({ loader, other }) => [...loader, ...other])
  return decide([read.every((word) => word === '"new"')], seen.join(' '))
}

const runOvertaken = (tags: readonly string[], purge: Purge) => async (stage: Stage) => {
  const instances = [await stage.open({ tags }), await stage.open({ tags })] as const
  return judgeOvertaken([
    await overtake(stage, instances, 'the loading process', purge),
    await overtake(stage, instances, 'another process', purge),
  ])
}

const byTag: Purge = async (instance) => {
  if (instance.invalidateTag === undefined) throw new NotSupported('It has no tags.')
  return instance.invalidateTag(TAG)
}

export function judgeCleared(loads: number, second: Result, third: Result): Verdict {
  const isNew = (result: Result) => result.kind === 'value' && result.value === 'new'
  const seen = `${counted(loads, 'load')}. After the purge, the second caller got ${inWords(second)}, and the third caller ${inWords(third)}.`
  return decide([loads === 2, isNew(second), isNew(third)], seen)
}

async function runCleared({ open, origin }: Stage): Promise<Verdict> {
  const cache = await open()
  const gates = [gate(), gate()] as const
  origin.during = (call) => gates[call === 1 ? 0 : 1].opened
  const get = () => watch(() => cache.get('cleared'))
  const first = get()
  await origin.begun(1)
  origin.value = 'new'
  const purged = watch(() => cache.invalidate('cleared'), PURGE_MS)
  await Promise.race([purged, sleep(PATIENCE_MS)])
  const second = get()
  await origin.begun(2, 500)
  gates[0].open()
  await Promise.all([first, purged])
  await sleep(100)
  const third = get()
  await sleep(150)
  gates[1].open()
  const results = [await second, await third] as const
  return judgeCleared(origin.calls, ...results)
}

const LOAD_MS = 50
const SLOWEST_MS = 250
const BACK_MS = 3_000

export function judgeFailing(
  loads: number,
  mostAtOnce: number,
  results: readonly Result[],
): Verdict {
  const slowest = Math.max(...results.map(({ ms }) => ms))
  const kinds = results.map((result) =>
    result.kind === 'value' ? shown(result.value) : result.kind,
  )
  const seen = `${counted(loads, 'load')}, at most ${mostAtOnce} at a time. The slowest caller waited ${Math.round(slowest)} ms. Results: ${tally(kinds)}.`
  const hasErrors = kinds.every((kind) => kind === 'error')
  return decide([loads <= 2, mostAtOnce === 1, slowest <= SLOWEST_MS, hasErrors], seen, [
    { label: 'loads', value: loads, unit: 'calls' },
    { label: 'wait of the slowest caller', value: slowest, unit: 'ms' },
  ])
}

async function runFailing({ open, origin }: Stage): Promise<Verdict> {
  const cache = await open()
  origin.during = async () => {
    await sleep(LOAD_MS)
    throw new Error('the origin is down')
  }
  const callers = (count: number) =>
    Array.from({ length: count }, () => watch(() => cache.get('failing')))
  const early = callers(20)
  await sleep(LOAD_MS + 25)
  const results = await Promise.all([...early, ...callers(10)])
  return judgeFailing(origin.calls, origin.mostAtOnce, results)
}

/** `later`: the result of a call after the origin works again. */
export function judgeHanging(first: Result, second: Result, later: Reached): Verdict {
  const back = later.reached
    ? `the value after ${Math.round(later.ms)} ms`
    : `no value in ${BACK_MS} ms`
  const seen = `Second caller: ${inWords(second)}. Later callers: ${back}. First caller: ${inWords(first)}.`
  const waited = ({ kind, ms }: Result) =>
    ({ value: ms, unit: 'ms', never: kind === 'none' }) as const
  return decide([second.kind !== 'none', later.reached], seen, [
    { label: 'time until the second caller has a result', ...waited(second) },
    { label: 'time until later callers have a value', ...waited(later) },
    { label: 'time until the first caller has a result', ...waited(first) },
  ])
}

async function runHanging({ open, origin }: Stage): Promise<Verdict> {
  const cache = await open()
  const get = () => cache.get('hanging')
  origin.during = (call) => (call === 1 ? new Promise(() => {}) : sleep(20))
  const first = watch(get, 2 * BACK_MS)
  await origin.begun(1)
  const second = await watch(get, BACK_MS)
  const later = await until('old', get, BACK_MS)
  return judgeHanging(await first, second, later)
}

export function judgeThrown(failed: Result, later: readonly Result[], backMs: number): Verdict {
  const values = later.flatMap((result) => (result.kind === 'value' ? [shown(result.value)] : []))
  const isBack = values.includes('"old"')
  const isRight = values.every((value) => value === '"old"')
  const back = isBack
    ? `the value came after ${Math.round(backMs)} ms`
    : `no value came in ${BACK_MS} ms`
  const before = isRight ? '.' : ` (before it: ${tally(values)}).`
  const seen = `The caller got ${inWords(failed)}. Once the origin worked again, ${back}${before}`
  return decide([failed.kind === 'error', isBack, isRight], seen, [
    { label: 'time until a value after the failure', value: backMs, unit: 'ms' },
  ])
}

async function runThrown({ open, origin }: Stage): Promise<Verdict> {
  const cache = await open()
  origin.during = async (call) => {
    if (call === 1) throw new Error('the origin is down')
  }
  const failed = await watch(() => cache.get('thrown'), 3_000)
  const since = performance.now()
  const later: Result[] = []
  while (performance.now() - since < BACK_MS) {
    const result = await watch(() => cache.get('thrown'), BACK_MS)
    later.push(result)
    if (result.kind === 'value' && result.value === 'old') break
    await sleep(20)
  }
  return judgeThrown(failed, later, performance.now() - since)
}

const byKey: Purge = (instance, key) => instance.invalidate(key)

export const loads: readonly Scenario[] = [
  { id: 'T1', title: 'a purge during a load', run: runOvertaken([], byKey) },
  { id: 'T2', title: 'a purge by tag during a load', run: runOvertaken([TAG], byTag) },
  { id: 'T3', title: 'a failing origin with many callers', run: runFailing },
  { id: 'T4', title: 'an origin that hangs', run: runHanging },
  { id: 'T10', title: 'a purge and a new load during a load', run: runCleared },
  { id: 'T12', title: 'an origin that throws once', run: runThrown },
]
