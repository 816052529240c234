// `npm run simulate`: simulated hours until they are over or a rule is broken, which is printed with its seed and the last lines
// of what happened.

import { performance } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { inMacrotask } from './drain.ts'
import { type Outcome, runEpisode, type Setting } from './episode.ts'
import { Figures } from './figures.ts'

const HOUR_MS = 3_600_000
const EPISODE_MS = 180_000

export async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      seed: { type: 'string', default: '1' },
      hours: { type: 'string', default: '1' },
      processes: { type: 'string', default: '100' },
      minutes: { type: 'string', default: '3' },
    },
  })
  const figures = new Figures()
  const startedAt = performance.now()
  const processes = Number(values.processes)
  const forMs = Number(values.minutes) * 60_000
  for (let seed = Number(values.seed); figures.simulatedMs < Number(values.hours) * HOUR_MS; seed++) {
    const outcome = await inMacrotask(() => runEpisode({ seed, processes, forMs }, figures))
    if (outcome.violation !== undefined) {
      console.log(report(outcome))
      if (process.env.GO) continue
      return 1
    }
  }
  console.log(figures, performance.now() - startedAt)
  return 0
}

function report({ setting, violation, transcript }: Outcome): string {
  return `${setting.seed} ${violation?.message}\n${transcript.tail(3000).join('\n')}`
}
