// Scenarios with a purge during a load: T1, T2, T10.
import { setTimeout as sleep } from 'node:timers/promises'
import { Gate } from '../origin.ts'
import { type Instance, NotSupported } from '../peer.ts'
import type { Stage } from '../stage.ts'
import { counted, decide, inWords, type Result, shown, tally, type Verdict } from '../verdict.ts'
import { watch } from '../watch.ts'
import type { Scenario } from './scenario.ts'

const TAG = 'product:42'

/** The values that both processes read after the load. */
export interface Overtaken {
  readonly by: 'the loading process' | 'another process'
  readonly purge: Result
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
  const gate = new Gate()
  origin.reset()
  origin.value = 'old'
  origin.during = () => gate.opened
  const load = watch(() => loader.get(key), 5_000)
  await origin.begun(1)
  origin.value = 'new'
  const purged = watch(() => purge(by === 'the loading process' ? loader : other, key), 3_000)
  // Some purges wait for the load, so the load must not wait for the purge without a limit.
  await Promise.race([purged, sleep(300)])
  await sleep(100)
  gate.open()
  await Promise.all([load, purged])
  await sleep(100)
  return { by, purge: await purged, ...(await readBoth(loader, other, key)) }
}

/**
 * Reads three times, because some caches respond from one tier and check the other in the
 * background.
 */
async function readBoth(loader: Instance, other: Instance, key: string) {
  const read = { loader: [] as string[], other: [] as string[] }
  for (let round = 0; round < 3; round += 1) {
    read.loader.push(words(await watch(() => loader.get(key), 2_000)))
    read.other.push(words(await watch(() => other.get(key), 2_000)))
    await sleep(100)
  }
  return read
}

const words = (result: Result): string =>
  result.kind === 'value' ? shown(result.value) : inWords(result)

export function judgeOvertaken(rounds: readonly Overtaken[]): Verdict {
  const isNew = (word: string) => word === '"new"'
  const seen = rounds.map(({ by, purge, loader, other }) => {
    const failed = purge.kind === 'value' ? '' : ` (${inWords(purge)})`
    return `Purge by ${by}${failed}: the loading process read ${tally(loader)}, the other process ${tally(other)}.`
  })
  return decide(
    rounds.map(({ loader, other }) => loader.every(isNew) && other.every(isNew)),
    seen.join(' '),
  )
}

async function runOvertaken(stage: Stage, tags: readonly string[], purge: Purge): Promise<Verdict> {
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

export interface Cleared {
  readonly loads: number
  readonly second: Result
  readonly third: Result
}

export function judgeCleared({ loads, second, third }: Cleared): Verdict {
  const isNew = (result: Result) => result.kind === 'value' && result.value === 'new'
  const seen = `${counted(loads, 'load')}. After the purge, the second caller got ${inWords(second)}, and the third caller ${inWords(third)}.`
  return decide([loads === 2, isNew(second), isNew(third)], seen)
}

async function runCleared({ open, origin }: Stage): Promise<Verdict> {
  const cache = await open()
  const key = 'cleared'
  const gates = [new Gate(), new Gate()] as const
  origin.during = (call) => gates[call === 1 ? 0 : 1].opened
  const first = watch(() => cache.get(key), 5_000)
  await origin.begun(1)
  origin.value = 'new'
  const purged = watch(() => cache.invalidate(key), 3_000)
  await Promise.race([purged, sleep(300)])
  const second = watch(() => cache.get(key), 5_000)
  await origin.begun(2, 500)
  gates[0].open()
  await Promise.all([first, purged])
  await sleep(100)
  const third = watch(() => cache.get(key), 5_000)
  await sleep(150)
  gates[1].open()
  const results = { second: await second, third: await third }
  return judgeCleared({ loads: origin.calls, ...results })
}

export const purges: readonly Scenario[] = [
  {
    id: 'T1',
    title: 'a purge during a load',
    story:
      'A load has read the old data and is still running. Then the data changes, and the key is purged. The load ends, and two ' +
      'processes read the key three times each. This runs twice: the purge is made by the loading process, or by the other.',
    criterion: 'every read returns the new data.',
    run: (stage) => runOvertaken(stage, [], (instance, key) => instance.invalidate(key)),
  },
  {
    id: 'T2',
    title: 'a purge by tag during a load',
    story: 'The same with a purge by a tag of the key.',
    criterion: 'every read returns the new data.',
    run: (stage) => runOvertaken(stage, [TAG], byTag),
  },
  {
    id: 'T10',
    title: 'a purge and a new load during a load',
    story:
      'A process purges a key during its own load, and a second caller asks for the key. The first load ends. A third caller ' +
      'asks before the second load ends.',
    criterion: 'there are exactly two loads, and the second and the third caller get the new data.',
    run: runCleared,
  },
]
