// Table of hits, in Markdown.
import { table, whole } from '../lib/markdown.ts'
import type { HitRow } from './run-hits.ts'

export const hitTable = (rows: readonly HitRow[]): string =>
  table(
    ['server', 'CPU µs a request', 'requests/s', 'spread', '÷ floor', 'load CPU µs'],
    rows.map(({ subject, requestsPerSecond: { median, min, max }, ofFloor, ...row }) => [
      subject.name,
      row.cpuMicros?.toFixed(1) ?? '–',
      whole(median),
      `${whole(min)}–${whole(max)}`,
      ofFloor?.toFixed(2) ?? '',
      row.loaderMicros.toFixed(1),
    ]),
  )
