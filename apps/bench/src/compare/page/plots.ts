// The plots of docs/benchmarks.md, as a map from file name to SVG.
import type { CallRow } from '../data/run-calls.ts'
import type { HitRow } from '../hit/run-hits.ts'
import { whole } from '../lib/markdown.ts'
import { openPeers } from '../open/peers.ts'
import type { OpenRow } from '../open/run-open.ts'
import { scenarios } from '../open/scenarios.ts'
import type { Growth, Results } from './results.ts'
import { type Bar, barPanels, type Line, logLines, type Panel, type Tone } from './svg.ts'

export function plotsOf({ hits, calls, redisHits, redisMisses, open, growth }: Results) {
  const plots = new Map<string, string>()
  if (hits) plots.set('hits.svg', hitPlot(hits))
  if (calls)
    plots.set(
      'memory.svg',
      callPlot('A hit in memory: calls a second (more is better)', [['getOrSet', calls]]),
    )
  if (redisHits && redisMisses) {
    const panels = [
      ['a hit', redisHits],
      ['a miss', redisMisses],
    ] as const
    plots.set('redis.svg', callPlot('The Redis tier: calls a second (more is better)', panels))
  }
  if (open) {
    plots.set('origin-calls.svg', openPlot('Origin calls (less is better)', open, originCalls))
    plots.set('latency.svg', openPlot('Latency, p99 in ms (less is better)', open, p99))
  }
  if (growth) {
    plots.set('processes.svg', processPlot(growth))
    plots.set('waiters.svg', waiterPlot(growth))
  }
  return plots
}

function hitPlot(rows: readonly HitRow[]): string {
  const hits = rows.filter(({ subject }) => !subject.isEachNew && subject.kind !== 'reference')
  const floors = hits.filter(({ subject }) => subject.kind === 'floor')
  const panels = floors.map(({ subject: { id, name } }) => ({
    title: name.split(',')[0] ?? name,
    bars: hits
      .filter(({ subject }) => subject.id === id || subject.floor === id)
      .map(({ subject, requestsPerSecond: { median } }): Bar => {
        const tone = subject.kind === 'ours' || subject.kind === 'floor' ? subject.kind : 'peer'
        return { label: subject.name, value: median, text: whole(median), tone }
      }),
  }))
  return barPanels('What a hit costs: requests a second (more is better)', panels, true)
}

function callPlot(
  title: string,
  parts: ReadonlyArray<readonly [string, readonly CallRow[]]>,
): string {
  const panels = parts.map(
    ([heading, rows]): Panel => ({
      title: heading,
      bars: rows.map(({ name, kind, callsPerSecond: { median } }) => ({
        label: name,
        value: median,
        text: whole(median),
        tone: kind,
      })),
    }),
  )
  return barPanels(title, panels, false)
}

const originCalls = ({ originCalls: { median } }: OpenRow): number => median
const p99 = ({ latencyMs }: OpenRow): number => latencyMs.p99

function openPlot(
  title: string,
  rows: readonly OpenRow[],
  figure: (row: OpenRow) => number,
): string {
  const panels = scenarios.map(({ id, title: heading }) => ({
    title: heading,
    bars: rows
      .filter(({ scenario }) => scenario === id)
      .map((row): Bar => {
        const tone = row.peer === 'stampede' ? 'ours' : 'peer'
        const label = openPeers.find((peer) => peer.id === row.peer)?.name ?? row.peer
        return { label, value: figure(row), text: whole(figure(row)), tone }
      }),
  }))
  return barPanels(title, panels, false)
}

/**
 * One call or a hundredth of a millisecond is the minimum, because a logarithmic axis has no zero.
 */
const lineOf = <T>(
  rows: readonly (T & { readonly peer: string })[],
  peer: string,
  point: (row: T) => readonly [number, number],
): Line => ({
  label: peer === 'stampede' ? 'Stampede' : peer,
  tone: toneOf(peer),
  points: rows.filter((row) => row.peer === peer).map(point),
})

const toneOf = (peer: string): Tone => (peer === 'stampede' ? 'ours' : 'peer')
const peersOf = (rows: readonly { readonly peer: string }[]) => [
  ...new Set(rows.map(({ peer }) => peer)),
]

const processPlot = ({ fleets }: Growth): string =>
  logLines(
    'One cold key, 25 callers a process (less is better)',
    { x: 'processes', y: 'origin calls' },
    peersOf(fleets).map((peer) =>
      lineOf(fleets, peer, (row) => [row.processes, Math.max(1, row.originCalls)]),
    ),
  )

const waiterPlot = ({ waiters }: Growth): string =>
  logLines(
    'One cold key, many callers (less is better)',
    { x: 'callers', y: 'ms from the end of the origin to the last value' },
    peersOf(waiters).map((peer) =>
      lineOf(waiters, peer, (row) => [row.waiters, Math.max(0.01, row.settledMs)]),
    ),
  )
