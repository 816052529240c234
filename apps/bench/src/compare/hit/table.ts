// Hits as a table in Markdown.
import { table } from '../lib/markdown.ts'
import type { HitRow } from './run-hits.ts'

export const hitTable = (rows: readonly HitRow[]): string =>
  table(
    ['server', 'requests/s', 'spread', '÷ floor', 'CPU µs a request'],
    rows.map(({ subject, requestsPerSecond: { median, min, max }, ofFloor, cpuMicros }) => [
      subject.name,
      Math.round(median).toString(),
      `${Math.round(min)}–${Math.round(max)}`,
      ofFloor?.toFixed(2) ?? '',
      cpuMicros?.toFixed(1) ?? '–',
    ]),
  )
