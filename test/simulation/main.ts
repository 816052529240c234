// `npm run simulate`: runs episodes until the given hours are simulated or a rule is broken. A
// broken rule is printed with its seed and the last lines of the transcript. With `--shrink`, the
// episode is first made as small as possible.

import { performance } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { inMacrotask } from './drain.ts'
import { type Outcome, runEpisode } from './episode.ts'
import { Figures } from './figures.ts'
import { EVIDENCE, faultsTable, figuresTable, README, writeInto } from './page.ts'
import { asArguments, isReduced, SETTING_OPTIONS, settingFrom } from './setting.ts'
import { shrink } from './shrink.ts'

const HOUR_MS = 3_600_000

const OPTIONS = {
  ...SETTING_OPTIONS,
  hours: { type: 'string', default: '1' },
  lines: { type: 'string', default: '60' },
  /** Shrinks a failing episode. */
  shrink: { type: 'boolean', default: false },
  /** For mutants.ts: the result as one line of JSON. */
  report: { type: 'boolean', default: false },
  /** Writes the figures into the page of evidence, and the faults into README.md. */
  page: { type: 'boolean', default: false },
} as const

export async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: OPTIONS })
  const figures = new Figures()
  const startedAt = performance.now()
  const first = settingFrom(values)
  const atMostMs = isReduced(first) ? 1 : Number(values.hours) * HOUR_MS
  let failed: Outcome | undefined
  for (let { seed } = first; figures.simulatedMs < atMostMs; seed++) {
    const outcome = await inMacrotask(() => runEpisode({ ...first, seed }, figures))
    if (outcome.violation === undefined) continue
    failed = outcome
    break
  }
  const wallMs = performance.now() - startedAt
  if (values.report) console.log(asLine(figures, failed))
  else if (failed !== undefined)
    console.log(await told(failed, Number(values.lines), values.shrink))
  else console.log(`${figuresTable(figures, wallMs)}\n\n${faultsTable(figures)}`)
  if (values.page && failed === undefined) {
    const seeds = `Seeds from ${first.seed} on.`
    await writeInto(EVIDENCE, 'figures', `${seeds}\n\n${figuresTable(figures, wallMs)}`)
    await writeInto(README, 'faults', faultsTable(figures))
  }
  return failed === undefined ? 0 : 1
}

function asLine({ episodes, steps }: Figures, failed: Outcome | undefined): string {
  const { setting, violation } = failed ?? {}
  return JSON.stringify({
    episodes,
    steps,
    seed: setting?.seed,
    lastSteps: failed?.steps,
    found: violation?.message,
  })
}

async function told(failed: Outcome, lines: number, isToBeSmall: boolean): Promise<string> {
  if (!isToBeSmall) return inWords(failed, lines)
  const { outcome, tries } = await shrink(failed)
  return `${inWords(outcome, lines)}\nfound at: ${asArguments(failed.setting)}; made small in ${tries} tries`
}

/** Prints lines about the key in question, and all faults. */
function inWords({ setting, violation, transcript, steps }: Outcome, most: number): string {
  const { message = '', about = '' } = violation ?? {}
  const isAbout = (line: string) =>
    isReduced(setting) || line.includes(about) || / (fault|is paused|goes on|is killed)/.test(line)
  const again = `npm run simulate -- ${asArguments(setting)}`
  return [...transcript.tail(most, isAbout), '', message, `after ${steps} steps: ${again}`].join(
    '\n',
  )
}
