// Which episode to run: from a command line, and back to one. So a failure is shown again by what was printed, and can be kept as it is
// in regressions.ts.

import { parseArgs } from 'node:util'
import { fromRanges, inRanges } from './ranges.ts'
import type { Setting } from './schedule.ts'

const MINUTE_MS = 60_000

export const SETTING_OPTIONS = {
  /** Of the first episode; each takes the next. */
  seed: { type: 'string', default: '1' },
  /** The largest fleet; most are smaller. */
  processes: { type: 'string', default: '100' },
  /** Of calls and faults in one episode. */
  minutes: { type: 'string', default: '3' },
  /** What is left of an episode that was made smaller: so many processes; calls and faults, by number. */
  fleet: { type: 'string' },
  calls: { type: 'string' },
  faults: { type: 'string' },
} as const

type Values = Readonly<Partial<Record<keyof typeof SETTING_OPTIONS, string>>>

export function settingFrom({ seed, processes, minutes, fleet, calls, faults }: Values): Setting {
  return {
    seed: Number(seed),
    processes: Number(processes),
    forMs: Number(minutes) * MINUTE_MS,
    ...(fleet !== undefined && { fleet: Number(fleet) }),
    ...(calls !== undefined && { calls: fromRanges(calls) }),
    ...(faults !== undefined && { faults: fromRanges(faults) }),
  }
}

/** Of what `asArguments` wrote. */
export function settingOf(line: string): Setting {
  return settingFrom(parseArgs({ args: line.split(' '), options: SETTING_OPTIONS }).values)
}

export function asArguments(setting: Setting): string {
  const { seed, processes, forMs, fleet, calls, faults } = setting
  const parts = [`--seed ${seed} --processes ${processes} --minutes ${forMs / MINUTE_MS}`]
  if (fleet !== undefined) parts.push(`--fleet ${fleet}`)
  if (faults !== undefined) parts.push(`--faults ${inRanges(faults)}`)
  if (calls !== undefined) parts.push(`--calls ${inRanges(calls)}`)
  return parts.join(' ')
}

/** It is one episode that was made smaller, not the first of many. */
export function isReduced({ fleet, calls, faults }: Setting): boolean {
  return fleet !== undefined || calls !== undefined || faults !== undefined
}
