// What the terminal shows: one line for everything that happens, and a table of what came of it.

import type { Row } from './jobs.ts'
import type { Step } from './work.ts'

/** A step as a sentence; undefined for those that only the coordinator needs. */
export function sentence(
  worker: string,
  step: Step,
  job: number,
  fence: bigint,
): string | undefined {
  switch (step) {
    case 'waits':
      return `${worker} was given job ${job} too, and waits for its lock`
    case 'begins':
      return `${worker} has job ${job}, fence ${fence}`
    case 'did':
      return `${worker} wrote the result of job ${job}`
    case 'skips':
      return `${worker} gets the lock of job ${job}: it is done already, nothing to do`
    case 'refused':
      return `${worker} wrote job ${job} too late, fence ${fence}: the row refused it`
    case 'stops':
      return `${worker} noticed that its lease of job ${job} is over, and stopped`
    default:
      return undefined
  }
}

export interface Tally {
  readonly jobs: readonly Row[]
  readonly deliveries: ReadonlyMap<number, number>
  readonly refused: ReadonlyMap<number, number>
}

/** Whether every job has one result, no more and no less. */
export function isExactlyOnce({ jobs }: Tally): boolean {
  return jobs.length > 0 && jobs.every(({ done }) => done === 1)
}

export function table(tally: Tally): string {
  const { jobs, deliveries, refused } = tally
  const rows = jobs.map(({ id, done, doneBy, fence }) => [
    `job ${id}`,
    String(deliveries.get(id) ?? 0),
    String(done),
    doneBy ?? 'nobody',
    fence,
    String(refused.get(id) ?? 0),
  ])
  const head = ['job', 'deliveries', 'done', 'by', 'last fence', 'late writes refused']
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => cell(row, i))))
  const line = (row: string[]) =>
    `  ${row.map((text, i) => text.padEnd(widths[i] ?? 0)).join('  ')}`.trimEnd()
  const once = jobs.filter(({ done }) => done === 1).length
  const late = sum(refused) === 1 ? '1 late write' : `${sum(refused)} late writes`
  const sums = `${jobs.length} jobs, ${sum(deliveries)} deliveries, ${once} done once, ${late} refused`
  const verdict = isExactlyOnce(tally)
    ? 'Every job was done exactly once.'
    : 'NOT every job was done exactly once.'
  return ['', line(head), ...rows.map(line), '', `${sums}. ${verdict}`].join('\n')
}

function cell(row: readonly string[], column: number): number {
  return row[column]?.length ?? 0
}

function sum(counts: ReadonlyMap<number, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0)
}
