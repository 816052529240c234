// `stampede top`: the fleet live, from the reports of its processes.

import { setTimeout as sleep } from 'node:timers/promises'
import type { StampedeStore } from '@stampede/core'
import { ratiosOf } from '@stampede/core/operator'
import { type Command, flag, type Invocation } from '../command.ts'
import { EXIT, type ExitCode } from '../errors.ts'
import { openFleet } from '../fleet.ts'
import { bytes, type Columns, count, duration, number, percent, table } from '../format.ts'
import { type Counted, type ProcessView, readProcesses, totalOf } from '../reports.ts'
import type { Terminal } from '../terminal.ts'

export const top: Command = {
  summary: 'Shows the processes of the fleet live: hits, misses, waiters, hottest keys.',
  usage: 'stampede top [--once] [options]',
  options: [['--once', 'print once; the default without a terminal']],
  run,
}

const REFRESH_MS = 1_000
const MOST_KEYS = 10
const NOTHING =
  'No process reports. A process reports while a dashboard of @stampede/dashboard is mounted in it, ' +
  'or with a loop of its own. See docs/guide/command-line.md, "Reports of the processes".'

async function run({ values, settings, terminal }: Invocation): Promise<ExitCode> {
  await using fleet = await openFleet(settings)
  if (!flag(values, 'once') && !terminal.json && terminal.isInteractive)
    return await live(fleet.store, terminal)
  const processes = await readProcesses(fleet.store)
  const view = { processes, total: totalOf(processes) }
  terminal.print(view, () => screen(processes, undefined, terminal))
  return processes.length > 0 ? EXIT.ok : EXIT.found
}

const ALTERNATE_SCREEN = '\x1b[?1049h\x1b[?25l'
const NORMAL_SCREEN = '\x1b[?25h\x1b[?1049l'

/** Refreshes until the user presses q or Ctrl-C. */
async function live(store: StampedeStore, terminal: Terminal): Promise<ExitCode> {
  let last: Sample | undefined
  const isOver = pressedQuit(terminal).then(() => true)
  terminal.write(ALTERNATE_SCREEN)
  try {
    do {
      const processes = await readProcesses(store)
      const [at, total] = [Date.now(), totalOf(processes)]
      const rate = last && rateOf(last, { at, total })
      terminal.write(`\x1b[H\x1b[J${screen(processes, rate, terminal).join('\n')}\n\nq quits\n`)
      last = { at, total }
    } while (!(await Promise.race([isOver, sleep(REFRESH_MS, false)])))
  } finally {
    terminal.write(NORMAL_SCREEN)
  }
  return EXIT.ok
}

/** q, Ctrl-C and Ctrl-D. A terminal in raw mode sends no signals. */
const QUIT = ['q', '\x03', '\x04']

/** Resolves when the user presses q or Ctrl-C. */
function pressedQuit({ stdin }: Terminal): Promise<void> {
  const input = stdin as NodeJS.ReadStream
  input.setRawMode(true)
  return new Promise((resolve) => {
    input.on('data', (keys: Buffer) => {
      if (!QUIT.some((key) => String(keys).includes(key))) return
      input.setRawMode(false)
      input.pause()
      resolve()
    })
  })
}

interface Rate {
  readonly requestsPerS: number
  readonly runsPerS: number
}

type Sample = { readonly at: number; readonly total: Counted }

function rateOf(before: Sample, after: Sample): Rate {
  const seconds = Math.max(0.001, (after.at - before.at) / 1_000)
  // A process that restarts begins at zero.
  const perS = (name: 'requests' | 'runs') =>
    Math.max(0, after.total[name] - before.total[name]) / seconds
  return { requestsPerS: perS('requests'), runsPerS: perS('runs') }
}

function screen(
  processes: readonly ProcessView[],
  rate: Rate | undefined,
  terminal: Terminal,
): string[] {
  if (processes.length === 0) return [NOTHING]
  const total = totalOf(processes)
  const ratios = ratiosOf(total)
  const facts = [
    count(processes.length, 'process'),
    rate && `${number(rate.requestsPerS)} requests/s`,
    rate && `${number(rate.runsPerS)} origin runs/s`,
    `hit ratio ${percent(ratios.hitRatio)}`,
    `saved from the origin ${percent(ratios.saved)}`,
    `origin time saved ${duration(total.savedMs)}`,
  ].filter((fact) => fact !== undefined)
  const head = (title: string) => terminal.style('bold', title)
  const [flights, hot] = [flightsOf(processes), hotKeysOf(processes)]
  return [
    head(facts.join('  ·  ')),
    '',
    ...table(processes, PROCESSES),
    ...(flights.length > 0 ? ['', head('Keys under work'), ...table(flights, FLIGHTS)] : []),
    ...(hot.length > 0
      ? [
          '',
          head('Hottest keys'),
          ...table(hot, { HITS: ([, hits]) => number(hits), KEY: ([key]) => key }),
        ]
      : []),
  ].map((line) => line.slice(0, terminal.columns + (line.startsWith('\x1b') ? 20 : 0)))
}

const PROCESSES: Columns<ProcessView> = {
  PROCESS: ({ name }) => name,
  UP: ({ uptimeMs }) => duration(uptimeMs),
  REQUESTS: ({ requests }) => number(requests),
  HITS: (each) => percent(ratiosOf(each).hitRatio),
  MISSES: ({ misses }) => number(misses),
  STALE: ({ stale }) => number(stale),
  WAITS: ({ waits }) => number(waits),
  RUNS: ({ runs }) => number(runs),
  SAVED: ({ savedMs }) => duration(savedMs),
  MEMORY: ({ l1Bytes }) => bytes(l1Bytes),
  STORE: ({ isStoreAvailable }) => (isStoreAvailable ? 'up' : 'unavailable'),
}

type FlightRow = ProcessView['flights'][number] & { readonly name: string }

function flightsOf(processes: readonly ProcessView[]): FlightRow[] {
  return processes
    .flatMap(({ name, flights }) => flights.map((flight) => ({ ...flight, name })))
    .sort((a, b) => b.waiters - a.waiters || b.ageMs - a.ageMs)
    .slice(0, MOST_KEYS)
}

const FLIGHTS: Columns<FlightRow> = {
  STATE: ({ state }) => state,
  AGE: ({ ageMs }) => duration(ageMs),
  WAITERS: ({ waiters }) => number(waiters),
  PROCESS: ({ name }) => name,
  KEY: ({ key }) => key,
}

function hotKeysOf(processes: readonly ProcessView[]): Array<[key: string, hits: number]> {
  const all = new Map<string, number>()
  for (const { hotKeys } of processes) {
    for (const { key, hits } of hotKeys) all.set(key, (all.get(key) ?? 0) + hits)
  }
  return [...all].sort(([, a], [, b]) => b - a).slice(0, MOST_KEYS)
}
