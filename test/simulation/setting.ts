// The choice of an episode: parsed from a command line, and printed as one. So a printed failure
// can be run again, and can be kept in regressions.ts.

import { parseArgs } from 'node:util'
import { fromRanges, inRanges } from './ranges.ts'
import type { Setting } from './schedule.ts'

const MINUTE_MS = 60_000

export const SETTING_OPTIONS = {
  /** The seed of the first episode. Each further episode takes the next one. */
  seed: { type: 'string', default: '1' },
  /** The greatest size of a fleet. Most are smaller. */
  processes: { type: 'string', default: '100' },
  /** The duration of calls and faults in one episode. */
  minutes: { type: 'string', default: '3' },
  /** Values are asked for by getOrSetMany. */
  many: { type: 'boolean', default: false },
  /** The rest of a shrunk episode: this many processes, and calls and faults by number. */
  fleet: { type: 'string' },
  calls: { type: 'string' },
  faults: { type: 'string' },
} as const

type Values = Readonly<
  Partial<Record<Exclude<keyof typeof SETTING_OPTIONS, 'many'>, string>> & { many?: boolean }
>

export function settingFrom(values: Values): Setting {
  const { seed, processes, minutes, many, fleet, calls, faults } = values
  return {
    seed: Number(seed),
    processes: Number(processes),
    forMs: Number(minutes) * MINUTE_MS,
    ...(many && { many }),
    ...(fleet !== undefined && { fleet: Number(fleet) }),
    ...(calls !== undefined && { calls: fromRanges(calls) }),
    ...(faults !== undefined && { faults: fromRanges(faults) }),
  }
}

/** Parses the output of `asArguments`. */
export function settingOf(line: string): Setting {
  return settingFrom(parseArgs({ args: line.split(' '), options: SETTING_OPTIONS }).values)
}

export function asArguments(setting: Setting): string {
  const { seed, processes, forMs, many, fleet, calls, faults } = setting
  const parts = [`--seed ${seed} --processes ${processes} --minutes ${forMs / MINUTE_MS}`]
  if (many) parts.push('--many')
  if (fleet !== undefined) parts.push(`--fleet ${fleet}`)
  if (faults !== undefined) parts.push(`--faults ${inRanges(faults)}`)
  if (calls !== undefined) parts.push(`--calls ${inRanges(calls)}`)
  return parts.join(' ')
}

/** The arguments name one shrunk episode, not the first of many. */
export function isReduced({ fleet, calls, faults }: Setting): boolean {
  return fleet !== undefined || calls !== undefined || faults !== undefined
}
