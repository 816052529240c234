// Output of the demo: a sentence for each step, and a table of the results.

import type { Row } from './jobs.ts'
import type { Step } from './work.ts'

/** Returns the step as a sentence. Undefined for steps that only the coordinator needs. */
export function sentence(
  worker: string,
  step: Step,
  job: number,
  fence: bigint,
): string | undefined {
  switch (step) {
    case 'waits':
      return `${worker} also has a delivery of job ${job}, and waits for its lock`
    case 'begins':
      return `${worker} got the lock of job ${job} with fence ${fence}`
    case 'did':
      return `${worker} wrote the result of job ${job}`
    case 'skips':
      return `${worker} got the lock of job ${job}; the job is done already`
    case 'refused':
      return `${worker} wrote job ${job} too late with fence ${fence}; the row refused it`
    case 'stops':
      return `${worker} noticed that its lease for job ${job} was over, and stopped`
    default:
      return undefined
  }
}

export interface Tally {
  readonly jobs: readonly Row[]
  readonly deliveries: ReadonlyMap<number, number>
  readonly refused: ReadonlyMap<number, number>
}

/** True if every job has exactly one result. */
export function isExactlyOnce({ jobs }: Tally): boolean {
  return jobs.length > 0 && jobs.every(({ done }) => done === 1)
}

export function table(tally: Tally): string {
  const { jobs, deliveries, refused } = tally
  const rows = jobs.map(({ id, done, doneBy, fence }) => [
    `job ${id}`,
    String(deliveries.get(id) ?? 0),
    String(done),
    doneBy ?? '–',
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
