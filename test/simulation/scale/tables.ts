// The tables of docs/evidence/scale.md.

import type { Checked } from './cross-check.ts'
import type { BusyBurst, Cost, Costs } from './large-fleet.ts'
import type { Measured } from './measure.ts'
import { expect, type Load } from './model.ts'

type Row = ReadonlyArray<string | number>

function table(head: Row, rows: readonly Row[]): string {
  const line = (cells: Row) => `| ${cells.join(' | ')} |`
  return [line(head), `|---|${'---:|'.repeat(head.length - 1)}`, ...rows.map(line)].join('\n')
}

function grouped(number: number, digits = 0): string {
  return number.toFixed(digits).replace(/\B(?=(\d{3})+(?!\d))/g, ' ')
}

/** `perProcess`: requests per second. */
const SHAPES: ReadonlyArray<Pick<Load, 'ttlS' | 'entries'> & { readonly perProcess: number }> = [
  { perProcess: 1, ttlS: 60, entries: 10_000 },
  { perProcess: 10, ttlS: 60, entries: 10_000 },
  { perProcess: 100, ttlS: 10, entries: 10_000 },
  { perProcess: 100, ttlS: 60, entries: 1_000 },
  { perProcess: 100, ttlS: 60, entries: 10_000 },
  { perProcess: 100, ttlS: 600, entries: 10_000 },
  { perProcess: 100, ttlS: 600, entries: 100_000 },
]

export function modelTable(processes: number): string {
  const head = [
    'requests/s per process',
    'ttl, s',
    'entries in L1',
    'origin calls/s',
    'lookups/s',
    'wake-ups/s',
    'hits in L1',
    'copies in L1',
  ]
  const rows = SHAPES.map(({ perProcess, ...shape }): Row => {
    const requestsPerSecond = processes * perProcess
    const load = { processes, keys: 1_000_000, skew: 1, requestsPerSecond, fillS: 0.2, ...shape }
    const { originCalls, lookups, wakeUps, fromMemory, entriesHeld } = expect(load)
    const counts = [originCalls, lookups, wakeUps].map((each) => grouped(each))
    const share = `${(100 * fromMemory).toFixed(1)} %`
    const { ttlS, entries } = shape
    return [perProcess, ttlS, grouped(entries), ...counts, share, grouped(entriesHeld)]
  })
  return table(head, rows)
}

export function checkTable({ load, expected, seen }: Checked): string {
  const { processes, keys, requestsPerSecond, ttlS, entries } = load
  const names = ['originCalls', 'lookups', 'commits', 'wakeUps'] as const
  const rows = names.map((name): Row => {
    const [model, real] = [expected[name], seen[name]]
    return [name, model.toFixed(1), real.toFixed(1), `${(100 * (real / model - 1)).toFixed(1)} %`]
  })
  const intro = `${processes} processes, ${keys} keys, ${requestsPerSecond} requests/s in total, a ttl of ${ttlS} s, ${entries} entries in L1.`
  return `${intro}\n\n${table(['per second', 'model', 'real code', 'difference'], rows)}`
}

export function measuredTable(all: readonly Measured[]): string {
  const row = (name: string, of: (measured: Measured) => string): Row => [name, ...all.map(of)]
  const ms = (micros: number) => (micros / 1_000).toFixed(2)
  return table(
    ['processes', ...all.map(({ processes }) => grouped(processes))],
    [
      row('lookup while all processes wait, ms', (each) => ms(each.lookupMicros)),
      row('commit that wakes all processes, ms', (each) => ms(each.commitMicros)),
      row('purge of a key that all processes wait for, ms', (each) => ms(each.purgeOfRecordMicros)),
      row('notification of a purge to all processes, ms', (each) => ms(each.announceMicros)),
      row('hand-over of a lock with all processes queued, ms', (each) => ms(each.handOverMicros)),
      row('record with all processes as waiters, KB', (each) =>
        (each.recordBytes / 1_024).toFixed(1),
      ),
      row('memory of a subscriber, KB', (each) => (each.subscriberBytes / 1_024).toFixed(1)),
      row('time for all to connect and subscribe, ms', (each) => each.connectMs.toFixed(0)),
    ],
  )
}

export function fleetTable(all: ReadonlyArray<readonly [number, Costs]>): string {
  const total = ({ commands }: Cost) => Object.values(commands).reduce((sum, each) => sum + each, 0)
  const named = ({ commands }: Cost) =>
    Object.entries(commands)
      .map(([name, count]) => `${name} ${grouped(count)}`)
      .join(', ')
  const row = (name: string, of: (costs: Costs) => string): Row => [
    name,
    ...all.map(([, costs]) => of(costs)),
  ]
  const perSecond = (cost: Cost) => grouped((total(cost) / cost.simulatedMs) * 1_000)
  return table(
    ['processes', ...all.map(([size]) => grouped(size))],
    [
      row('start: commands', ({ start }) => named(start)),
      row('idle: commands/s', ({ idle }) => perSecond(idle)),
      row('cold burst: origin calls', ({ burst }) => `${burst.asked.origins}`),
      row('cold burst: commands', ({ burst }) => named(burst)),
      row('cold burst: wake-ups', ({ burst }) => grouped(burst.messages)),
      row('cold burst: last response after, ms', ({ burst }) => burst.asked.lastMs.toFixed(0)),
      row('cold burst: failed', ({ burst }) => `${burst.asked.failed}`),
      row('purge by key: messages', ({ purge }) => grouped(purge.messages)),
      row('purge by key: commands', ({ purge }) => named(purge)),
      row('restart: commands in 10 s', ({ restart }) => named(restart)),
      row('restart: most commands in 100 ms', ({ restart }) => grouped(restart.peak)),
      row('heap per process, KB', ({ heapKb }) => heapKb.toFixed(0)),
    ],
  )
}

export function busyTable(bursts: readonly BusyBurst[]): string {
  const head = ['processes', 'origin calls', 'lookups', 'last response, ms', 'failed']
  const rows = bursts.map(({ processes, asked, cost }): Row => {
    const counts = [
      asked.origins,
      cost.commands['lookup-or-lease'] ?? 0,
      asked.lastMs,
      asked.failed,
    ]
    return [grouped(processes), ...counts.map((each) => grouped(each))]
  })
  return table(head, rows)
}
