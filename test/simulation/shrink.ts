// Shrinks a failing episode: removes faults, calls and processes as long as the same rule is still
// broken.

import { inMacrotask } from './drain.ts'
import { type Outcome, runEpisode } from './episode.ts'
import { Figures } from './figures.ts'
import { makeSchedule, type Setting } from './schedule.ts'

export interface Shrunk {
  readonly outcome: Outcome
  /** The number of episodes that ran. */
  readonly tries: number
}

/** When the time is over, the smallest episode so far is the result. */
export async function shrink(failed: Outcome, budgetMs = 120_000): Promise<Shrunk> {
  const end = performance.now() + budgetMs
  const rule = failed.violation?.rule
  let outcome = failed
  let tries = 0
  /** Whether the rule is still broken without this. If so, that becomes the smallest episode. */
  const keeps = async (setting: Setting): Promise<boolean> => {
    if (performance.now() > end) return false
    tries += 1
    const tried = await inMacrotask(() => runEpisode(setting, new Figures()))
    if (tried.violation?.rule !== rule) return false
    outcome = tried
    return true
  }
  // Later calls and faults cannot be the cause.
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

/**
 * Zeller's ddmin, with complements only. It leaves out larger parts first, and ends when no single
 * element can be left out.
 */
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
