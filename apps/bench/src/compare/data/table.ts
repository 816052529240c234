// Calls of caches for data as a table in Markdown.
import { table, whole } from '../lib/markdown.ts'
import type { CallRow } from './run-calls.ts'

export const callTable = (rows: readonly CallRow[]): string =>
  table(
    ['cache', 'calls/s', 'spread', '÷ first', 'CPU µs a call'],
    rows.map(({ name, callsPerSecond: { median, min, max }, ofFloor, cpuMicros }) => [
      name,
      whole(median),
      `${whole(min)}–${whole(max)}`,
      ofFloor.toFixed(2),
      cpuMicros.toFixed(2),
    ]),
  )
