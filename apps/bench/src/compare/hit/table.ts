// Hits as a table in Markdown.
import { table, whole } from '../lib/markdown.ts'
import type { HitRow } from './run-hits.ts'

export const hitTable = (rows: readonly HitRow[]): string =>
  table(
    ['server', 'requests/s', 'spread', '÷ floor', 'CPU µs a request', 'of the load'],
    rows.map(({ subject, requestsPerSecond: { median, min, max }, ofFloor, ...row }) => [
      subject.name,
      whole(median),
      `${whole(min)}–${whole(max)}`,
      ofFloor?.toFixed(2) ?? '',
      row.cpuMicros?.toFixed(1) ?? '–',
      row.loaderMicros.toFixed(1),
    ]),
  )
