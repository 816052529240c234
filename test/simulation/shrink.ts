// Makes a failing episode small: takes faults, calls and processes away for as long as the same rule is broken still.

import { inMacrotask } from './drain.ts'
import { type Outcome, runEpisode } from './episode.ts'
import { Figures } from './figures.ts'
import { makeSchedule, type Setting } from './schedule.ts'

export interface Shrunk {
  readonly outcome: Outcome
  /** Episodes that were tried. */
  readonly tries: number
}

/** Where the time is over, what is small so far is the answer. */
export async function shrink(failed: Outcome, budgetMs = 120_000): Promise<Shrunk> {
  const end = performance.now() + budgetMs
  const rule = failed.violation?.rule
  let outcome = failed
  let tries = 0
  /** Whether it is broken with this taken away, too; then that is the smallest. */
  const keeps = async (setting: Setting): Promise<boolean> => {
    if (performance.now() > end) return false
    tries += 1
    const tried = await inMacrotask(() => runEpisode(setting, new Figures()))
    if (tried.violation?.rule !== rule) return false
    outcome = tried
    return true
  }
  // What came after it cannot have been why.
  const { fleet, calls, faults } = makeSchedule(failed.setting)
  const before = (all: ReadonlyArray<{ readonly index: number; readonly at: number }>) =>
    all.filter(({ at }) => at <= failed.brokenAt).map(({ index }) => index)
  await keeps({ ...failed.setting, fleet, calls: before(calls), faults: before(faults) })
  for (let left = 0; left !== sizeOf(outcome.setting); ) {
    left = sizeOf(outcome.setting)
    for (const what of ['faults', 'calls'] as const) {
      await thin(outcome.setting[what] ?? [], (few) => keeps({ ...outcome.setting, [what]: few }))
    }
    while (await keeps({ ...outcome.setting, fleet: (outcome.setting.fleet ?? fleet) - 1 })) {}
  }
  return { outcome, tries }
}

function sizeOf({ fleet = 0, calls = [], faults = [] }: Setting): number {
  return fleet + calls.length + faults.length
}

/** Zeller's ddmin, of complements alone: leaves out larger parts first, and ends when no single one can be left out. */
async function thin(
  all: readonly number[],
  keeps: (few: readonly number[]) => Promise<boolean>,
): Promise<void> {
  let left = all
  for (let size = Math.ceil(left.length / 2); size >= 1; ) {
    let isThinner = false
    for (let from = 0; from < left.length; ) {
      const few = left.toSpliced(from, size)
      if (await keeps(few)) {
        left = few
        isThinner = true
      } else from += size
    }
    if (size === 1 && !isThinner) return
    size = Math.max(1, Math.floor(size / 2))
  }
}
