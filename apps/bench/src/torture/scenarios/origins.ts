// Scenarios with an origin that fails or hangs: T3, T4, T12.
import { setTimeout as sleep } from 'node:timers/promises'
import { never } from '../origin.ts'
import type { Stage } from '../stage.ts'
import { counted, decide, inWords, type Result, shown, tally, type Verdict } from '../verdict.ts'
import { until, watch } from '../watch.ts'
import type { Scenario } from './scenario.ts'

const LOAD_MS = 50
const SLOWEST_MS = 250
const BACK_MS = 3_000

export interface FailingOrigin {
  readonly loads: number
  readonly mostAtOnce: number
  readonly results: readonly Result[]
}

export function judgeFailingOrigin({ loads, mostAtOnce, results }: FailingOrigin): Verdict {
  const slowest = Math.max(...results.map(({ ms }) => ms))
  const kinds = results.map((result) =>
    result.kind === 'value' ? shown(result.value) : result.kind === 'error' ? 'error' : 'no result',
  )
  const seen = `${counted(loads, 'load')}, at most ${mostAtOnce} at a time. The slowest caller waited ${Math.round(slowest)} ms. Results: ${tally(kinds)}.`
  const criteria = [
    loads <= 2,
    mostAtOnce === 1,
    slowest <= SLOWEST_MS,
    kinds.every((k) => k === 'error'),
  ]
  return decide(criteria, seen, [
    { label: 'loads', value: loads, unit: 'calls' },
    { label: 'wait of the slowest caller', value: slowest, unit: 'ms' },
  ])
}

async function runFailingOrigin({ open, origin }: Stage): Promise<Verdict> {
  const cache = await open()
  origin.during = async () => {
    await sleep(LOAD_MS)
    throw new Error('the origin is down')
  }
  const callers = (count: number) =>
    Array.from({ length: count }, () => watch(() => cache.get('failing'), 5_000))
  const early = callers(20)
  await sleep(LOAD_MS + 25)
  const late = callers(10)
  const results = await Promise.all([...early, ...late])
  return judgeFailingOrigin({ loads: origin.calls, mostAtOnce: origin.mostAtOnce, results })
}

export interface HangingOrigin {
  readonly first: Result
  readonly second: Result
  /** The result of a call after the origin works again. */
  readonly later: Result & { readonly reached: boolean }
}

export function judgeHangingOrigin({ first, second, later }: HangingOrigin): Verdict {
  const seen =
    `Second caller: ${inWords(second)}. ` +
    `${later.reached ? `Later callers: the value after ${Math.round(later.ms)} ms` : `Later callers: no value in ${BACK_MS} ms`}. First caller: ${inWords(first)}.`
  return decide([second.kind !== 'none', later.reached], seen, [
    { label: 'time until the second caller has a result', ...waited(second) },
    { label: 'time until later callers have a value', ...waited(later) },
    { label: 'time until the first caller has a result', ...waited(first) },
  ])
}

const waited = ({ kind, ms }: Result) =>
  ({ value: ms, unit: 'ms', never: kind === 'none' }) as const

async function runHangingOrigin({ open, origin }: Stage): Promise<Verdict> {
  const cache = await open()
  const key = 'hanging'
  origin.during = (call) => (call === 1 ? never() : sleep(20))
  const first = watch(() => cache.get(key), 2 * BACK_MS)
  await origin.begun(1)
  const second = await watch(() => cache.get(key), BACK_MS)
  const later = await until('old', () => cache.get(key), BACK_MS)
  return judgeHangingOrigin({ first: await first, second, later })
}

export interface Thrown {
  readonly failed: Result
  readonly later: readonly Result[]
  readonly backMs: number
}

export function judgeThrown({ failed, later, backMs }: Thrown): Verdict {
  const values = later.flatMap((result) => (result.kind === 'value' ? [shown(result.value)] : []))
  const back = values.includes('"old"')
  const seen =
    `The caller got ${inWords(failed)}. Once the origin worked again, ` +
    (back ? `the value came after ${Math.round(backMs)} ms` : `no value came in ${BACK_MS} ms`) +
    (values.some((value) => value !== '"old"') ? ` (before it: ${tally(values)}).` : '.')
  const criteria = [failed.kind === 'error', back, values.every((value) => value === '"old"')]
  return decide(criteria, seen, [
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
  return judgeThrown({ failed, later, backMs: performance.now() - since })
}

export const origins: readonly Scenario[] = [
  {
    id: 'T3',
    title: 'a failing origin with many callers',
    story: `The origin throws after ${LOAD_MS} ms. 20 callers ask at once, and 10 more ask ${LOAD_MS + 25} ms later.`,
    criterion: `each group of callers causes at most one load, no two loads overlap, and every caller has its error within ${SLOWEST_MS} ms.`,
    run: runFailingOrigin,
  },
  {
    id: 'T4',
    title: 'an origin that hangs',
    story:
      'The first load never settles. A second caller joins it, and later callers come when the origin works again. If the cache ' +
      'has a timeout for loads, it is 1 s.',
    criterion: `the second caller has a value or an error within ${BACK_MS} ms, and later callers get a value within ${BACK_MS} ms more. The result of the first caller is shown and does not count.`,
    run: runHangingOrigin,
  },
  {
    id: 'T12',
    title: 'an origin that throws once',
    story: 'The origin throws at the first load, and works from then on.',
    criterion: `the caller gets a rejection, later callers get an error or the right value, and the value comes within ${BACK_MS} ms.`,
    run: runThrown,
  },
]
