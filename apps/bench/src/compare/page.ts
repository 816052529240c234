// Tables and plots of results/benchmarks.md. The template of the page has the sentences.
import { readFileSync } from 'node:fs'
import { list, table, whole } from '../lib/markdown.ts'
import { median, type Row, ratio, spread } from '../lib/rows.ts'
import { RESULTS } from '../lib/run.ts'
import { type Bar, barPanels, logLines } from '../lib/svg.ts'
import { type Results, shortfalls, targetsOf } from './results.ts'
import type { Growth } from './run-growth.ts'
import type { OpenRow } from './run-open.ts'
import { scenarios } from './scenarios.ts'

/** Values for the template, by name. A part that did not run has none. */
export function tablesOf(results: Results): Record<string, string> {
  const { hits, calls, redisHits, redisMisses, open, growth } = results
  const values: Record<string, string> = { shortfalls: list(shortfalls(results), 'Nothing.') }
  const targets = targetsOf(results)
  if (targets.length > 0) values.targets = table(['', 'wanted', 'seen', ''], targets)
  if (hits) values.hits = hitTable(hits)
  if (calls) values.calls = callTable(calls)
  if (redisHits && redisMisses)
    Object.assign(values, { redisHits: callTable(redisHits), redisMisses: callTable(redisMisses) })
  if (open) {
    values.open = String(open.length)
    for (const { id } of scenarios)
      values[id] = openTable(open.filter(({ scenario }) => scenario === id))
  }
  if (growth) Object.assign(values, growthTables(growth))
  return values
}

const range = (row: Row): string => {
  const { min, max } = spread(row, 'rate')
  return `${whole(min)}–${whole(max)}`
}

const hitTable = (rows: readonly Row[]): string =>
  table(
    ['server', 'CPU µs a request', 'requests/s', 'spread', '÷ floor', 'load CPU µs'],
    rows.map((row) => [
      row.name,
      median(row, 'cpuMicros').toFixed(1),
      whole(median(row, 'rate')),
      range(row),
      ratio(rows, row.id, row.floor, 'rate')?.toFixed(2) ?? '',
      median(row, 'loaderMicros').toFixed(1),
    ]),
  )

const callTable = (rows: readonly Row[]): string =>
  table(
    ['cache', 'CPU µs a call', 'calls/s', 'spread', '÷ first'],
    rows.map((row) => [
      row.name,
      median(row, 'cpuMicros').toFixed(2),
      whole(median(row, 'rate')),
      range(row),
      ratio(rows, row.id, rows[0]?.id, 'rate')?.toFixed(2) ?? '',
    ]),
  )

const openTable = (rows: readonly OpenRow[]): string =>
  table(
    ['cache', 'requests', 'origin calls', 'spread', 'failed', 'p50 ms', 'p99 ms', 'p999 ms'],
    rows.map(({ name, requests, originCalls: { median: calls, min, max }, failed, ...row }) => [
      ...[name, String(requests), String(calls), `${min}–${max}`, `${(failed * 100).toFixed(1)} %`],
      ...[row.p50.toFixed(1), row.p99.toFixed(0), row.p999.toFixed(0)],
    ]),
  )

const NAMES: Readonly<Record<string, string>> = {
  stampede: 'Stampede',
  express: 'Express alone, one handler run per request',
}
const nameOf = (id: string): string => NAMES[id] ?? id

function growthTables({ keys, pages, fleets, waiters, crowds }: Growth): Record<string, string> {
  const afterOrigin = ['origin calls', 'last value after the origin, ms', 'event loop blocked, ms']
  return {
    bodyBytes: String(pages.bodyBytes),
    pageBytes: String(Math.round(pages.memoryBytes)),
    pageEntries: String(pages.entries),
    countedBytes: String(Math.round(pages.countedBytes)),
    keys: table(
      [
        ...['keys', 'bytes per value', 'memory per entry', 'as counted by L1'],
        ...['µs a fill', 'ns a hit', 'ns a hit, lru-cache'],
      ],
      keys.map((row) => [
        ...[whole(row.keys), String(row.storedBytes)],
        // With a hundred entries, the noise of the heap is larger than the entries.
        ...[row.keys < 1_000 ? '–' : whole(row.memoryBytes), whole(row.countedBytes)],
        ...[row.fillMicros.toFixed(1), whole(row.hitNanos), whole(row.lruNanos)],
      ]),
    ),
    fleets: table(
      ['cache', 'processes', 'origin calls', 'slowest caller after the origin, ms'],
      fleets.map(({ peer, processes, originCalls, overheadMs }) => [
        ...[nameOf(peer), String(processes), String(originCalls), overheadMs.toFixed(1)],
      ]),
    ),
    waiters: table(
      ['cache', 'callers', ...afterOrigin],
      waiters.map(({ peer, originCalls, settledMs, blockedMs, ...row }) => [
        ...[nameOf(peer), whole(row.waiters), String(originCalls), settledMs.toFixed(1)],
        blockedMs.toFixed(1),
      ]),
    ),
    crowds: table(
      ['server', 'clients', ...afterOrigin.map((head) => head.replace('value', 'response'))],
      crowds.map(({ peer, clients, originCalls, respondedMs, blockedMs }) => [
        ...[nameOf(peer), String(clients), String(originCalls), whole(respondedMs)],
        blockedMs.toFixed(1),
      ]),
    ),
  }
}

/** Tables copied from the pages of locks and idempotency. */
export function otherTables(): Record<string, string> {
  const tableOf = (page: string): string[] => {
    const lines = readFileSync(`${RESULTS}/${page}.md`, 'utf8').split('\n')
    const from = lines.findIndex((line) => line.startsWith('|'))
    const end = lines.findIndex((line, index) => index > from && !line.startsWith('|'))
    return lines.slice(from, end)
  }
  const idempotency = tableOf('idempotency-compared')
  const cells = (line = '') =>
    line
      .split('|')
      .slice(3, -1)
      .map((cell) => cell.trim())
  const [names, totals] = [cells(idempotency[0]), cells(idempotency.at(-1))]
  const rows = names.map((name, column) => [name, totals[column] ?? ''])
  const locks = tableOf('benchmarks-locks').join('\n')
  return { locks, idempotency: table(['', 'correct cases'], rows) }
}

/** The plots by file name. The template shows them. */
export function plotsOf({ hits, calls, redisHits, redisMisses, open, growth }: Results) {
  const plots = new Map<string, string>()
  if (hits) plots.set('hits.svg', hitPlot(hits))
  const callBars = (rows: readonly Row[]) => rows.map((row) => bar(row, median(row, 'rate')))
  const callPlot = (title: string, panels: readonly (readonly [string, readonly Row[]])[]) =>
    barPanels(
      `${title}: calls a second (more is better)`,
      panels.map(([heading, rows]) => ({ title: heading, bars: callBars(rows) })),
      false,
    )
  if (calls) plots.set('memory.svg', callPlot('A hit in memory', [['getOrSet', calls]]))
  if (redisHits && redisMisses) {
    const panels = [
      ['a hit', redisHits],
      ['a miss', redisMisses],
    ] as const
    plots.set('redis.svg', callPlot('The Redis tier', panels))
  }
  if (open) {
    const calledOrigin = (row: OpenRow) => row.originCalls.median
    plots.set('origin-calls.svg', openPlot('Origin calls (less is better)', open, calledOrigin))
    plots.set(
      'latency.svg',
      openPlot('Latency, p99 in ms (less is better)', open, (row) => row.p99),
    )
  }
  if (growth) {
    const { fleets, waiters } = growth
    const processes = linesOf(fleets, (row) => [row.processes, Math.max(1, row.originCalls)])
    const callers = linesOf(waiters, (row) => [row.waiters, Math.max(0.01, row.settledMs)])
    const [one, less] = ['One cold key', '(less is better)']
    const axes = { x: 'callers', y: 'ms from the end of the origin to the last value' }
    plots.set(
      'processes.svg',
      logLines(
        `${one}, 25 callers a process ${less}`,
        { x: 'processes', y: 'origin calls' },
        processes,
      ),
    )
    plots.set('waiters.svg', logLines(`${one}, many callers ${less}`, axes, callers))
  }
  return plots
}

const bar = ({ name, kind }: Pick<Row, 'name' | 'kind'>, value: number): Bar => {
  const tone = kind === 'uncached' ? 'peer' : kind
  return { label: name, value, text: whole(value), tone }
}

function hitPlot(rows: readonly Row[]): string {
  const hits = rows.filter(({ id }) => !id.endsWith('-miss'))
  const panels = hits
    .filter(({ kind }) => kind === 'floor')
    .map(({ id, name }) => ({
      title: name.split(',')[0] ?? name,
      bars: hits
        .filter((row) => row.id === id || row.floor === id)
        .map((row) => bar(row, median(row, 'rate'))),
    }))
  return barPanels('What a hit costs: requests a second (more is better)', panels, true)
}

function openPlot(title: string, rows: readonly OpenRow[], figure: (row: OpenRow) => number) {
  const panels = scenarios.map(({ id, title: heading }) => ({
    title: heading,
    bars: rows
      .filter(({ scenario }) => scenario === id)
      .map((row) => bar({ ...row, kind: toneOf(row.peer) }, figure(row))),
  }))
  return barPanels(title, panels, false)
}

const toneOf = (peer: string) => (peer === 'stampede' ? 'ours' : 'peer')

/** A logarithmic axis has no zero. */
function linesOf<T extends { readonly peer: string }>(
  rows: readonly T[],
  point: (row: T) => readonly [number, number],
) {
  const peers = [...new Set(rows.map(({ peer }) => peer))]
  return peers.map((peer) => {
    const points = rows.filter((row) => row.peer === peer).map(point)
    return { label: nameOf(peer), tone: toneOf(peer), points } as const
  })
}
