// Tables of results/benchmarks.md. The template of the page has the sentences.
import { readFileSync } from 'node:fs'
import { list, table, whole } from '../lib/markdown.ts'
import { median, type Row, ratio, spread } from '../lib/rows.ts'
import { RESULTS } from '../lib/run.ts'
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
