// Origins that fail or never answer: T3, T4, T12.
import { setTimeout as sleep } from 'node:timers/promises'
import { never } from '../origin.ts'
import type { Stage } from '../stage.ts'
import { type Answer, counted, decide, inWords, shown, tally, type Verdict } from '../verdict.ts'
import { until, watch } from '../watch.ts'
import type { Scenario } from './scenario.ts'

const LOAD_MS = 50
const SLOWEST_MS = 250
const BACK_MS = 3_000

export interface Convoy {
  readonly loads: number
  readonly mostAtOnce: number
  readonly answers: readonly Answer[]
}

export function judgeConvoy({ loads, mostAtOnce, answers }: Convoy): Verdict {
  const slowest = Math.max(...answers.map(({ ms }) => ms))
  const kinds = answers.map((answer) =>
    answer.kind === 'value' ? shown(answer.value) : answer.kind === 'error' ? 'error' : 'no result',
  )
  const seen = `${counted(loads, 'load')}, at most ${mostAtOnce} at a time. The slowest caller waited ${Math.round(slowest)} ms. Results: ${tally(kinds)}.`
  const asked = [
    loads <= 2,
    mostAtOnce === 1,
    slowest <= SLOWEST_MS,
    kinds.every((k) => k === 'error'),
  ]
  return decide(asked, seen, [
    { label: 'loads', value: loads, unit: 'calls' },
    { label: 'wait of the slowest caller', value: slowest, unit: 'ms' },
  ])
}

async function runConvoy({ open, origin }: Stage): Promise<Verdict> {
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
  const answers = await Promise.all([...early, ...late])
  return judgeConvoy({ loads: origin.calls, mostAtOnce: origin.mostAtOnce, answers })
}

export interface Hang {
  readonly first: Answer
  readonly second: Answer
  /** Who come once the origin is well again. */
  readonly later: Answer & { readonly reached: boolean }
}

export function judgeHang({ first, second, later }: Hang): Verdict {
  const seen =
    `Second caller: ${inWords(second)}. ` +
    `${later.reached ? `Later callers: the value after ${Math.round(later.ms)} ms` : `Later callers: no value in ${BACK_MS} ms`}. First caller: ${inWords(first)}.`
  return decide([second.kind !== 'none', later.reached], seen, [
    { label: 'time until the second caller has a result', ...waited(second) },
    { label: 'time until later callers have a value', ...waited(later) },
    { label: 'time until the first caller has a result', ...waited(first) },
  ])
}

const waited = ({ kind, ms }: Answer) =>
  ({ value: ms, unit: 'ms', never: kind === 'none' }) as const

async function runHang({ open, origin }: Stage): Promise<Verdict> {
  const cache = await open()
  const key = 'hanging'
  origin.during = (call) => (call === 1 ? never() : sleep(20))
  const first = watch(() => cache.get(key), 2 * BACK_MS)
  await origin.begun(1)
  const second = await watch(() => cache.get(key), BACK_MS)
  const later = await until('old', () => cache.get(key), BACK_MS)
  return judgeHang({ first: await first, second, later })
}

export interface Thrown {
  readonly failed: Answer
  readonly later: readonly Answer[]
  readonly backMs: number
}

export function judgeThrown({ failed, later, backMs }: Thrown): Verdict {
  const values = later.flatMap((answer) => (answer.kind === 'value' ? [shown(answer.value)] : []))
  const back = values.includes('"old"')
  const seen =
    `The caller got ${inWords(failed)}. Once the origin worked again, ` +
    (back ? `the value came after ${Math.round(backMs)} ms` : `no value came in ${BACK_MS} ms`) +
    (values.some((value) => value !== '"old"') ? ` (before it: ${tally(values)}).` : '.')
  const asked = [failed.kind === 'error', back, values.every((value) => value === '"old"')]
  return decide(asked, seen, [
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
  const later: Answer[] = []
  while (performance.now() - since < BACK_MS) {
    const answer = await watch(() => cache.get('thrown'), BACK_MS)
    later.push(answer)
    if (answer.kind === 'value' && answer.value === 'old') break
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
    run: runConvoy,
  },
  {
    id: 'T4',
    title: 'an origin that hangs',
    story:
      'The first load never settles. A second caller joins it, and later callers come when the origin works again. If the cache ' +
      'has a timeout for loads, it is 1 s.',
    criterion: `the second caller has a value or an error within ${BACK_MS} ms, and later callers get a value within ${BACK_MS} ms more. The result of the first caller is shown and does not count.`,
    run: runHang,
  },
  {
    id: 'T12',
    title: 'an origin that throws once',
    story: 'The origin throws at the first load, and works from then on.',
    criterion: `the caller gets a rejection, later callers get an error or the right value, and the value comes within ${BACK_MS} ms.`,
    run: runThrown,
  },
]
