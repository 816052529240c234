// `npm run simulate`: episodes until so many hours are simulated or a rule is broken, which is then printed with its seed and the
// last lines of what happened.

import { performance } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { inMacrotask } from './drain.ts'
import { type Outcome, runEpisode } from './episode.ts'
import { Figures } from './figures.ts'
import { figuresTable, writeInto } from './page.ts'

const HOUR_MS = 3_600_000

const OPTIONS = {
  /** Of the first episode; each takes the next. */
  seed: { type: 'string', default: '1' },
  hours: { type: 'string', default: '1' },
  /** The largest fleet; most are smaller. */
  processes: { type: 'string', default: '100' },
  /** Of calls and faults in one episode. */
  minutes: { type: 'string', default: '3' },
  lines: { type: 'string', default: '60' },
  /** For mutants.ts: what came of it as one line of JSON. */
  report: { type: 'boolean', default: false },
  /** Writes the figures into docs/simulation.md. */
  page: { type: 'boolean', default: false },
} as const

export async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: OPTIONS })
  const figures = new Figures()
  const startedAt = performance.now()
  const processes = Number(values.processes)
  const forMs = Number(values.minutes) * 60_000
  const first = Number(values.seed)
  let failed: Outcome | undefined
  for (let seed = first; figures.simulatedMs < Number(values.hours) * HOUR_MS; seed++) {
    const outcome = await inMacrotask(() => runEpisode({ seed, processes, forMs }, figures))
    if (outcome.violation === undefined) continue
    failed = outcome
    break
  }
  const wallMs = performance.now() - startedAt
  if (values.report) console.log(asLine(figures, failed))
  else if (failed !== undefined) console.log(inWords(failed, Number(values.lines)))
  else console.log(figuresTable(figures, wallMs))
  if (values.page && failed === undefined) {
    await writeInto('figures', `Seeds from ${first} on.\n\n${figuresTable(figures, wallMs)}`)
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

/** What is about the key in question, and whatever went wrong. */
function inWords({ setting, violation, transcript, steps }: Outcome, most: number): string {
  const { message = '', about = '' } = violation ?? {}
  const isAbout = (line: string) =>
    line.includes(about) || / (fault|is paused|goes on|is killed)/.test(line)
  const { seed, processes, forMs } = setting
  const again = `npm run simulate -- --seed ${seed} --processes ${processes} --minutes ${forMs / 60_000}`
  return [...transcript.tail(most, isAbout), '', message, `after ${steps} steps: ${again}`].join(
    '\n',
  )
}
