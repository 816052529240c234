// Calls of caches for data as a table in Markdown.
import { table } from '../lib/markdown.ts'
import type { CallRow } from './run-calls.ts'

export const callTable = (rows: readonly CallRow[]): string =>
  table(
    ['cache', 'calls/s', 'spread', '÷ first', 'CPU µs a call'],
    rows.map(({ name, callsPerSecond: { median, min, max }, ofFloor, cpuMicros }) => [
      name,
      Math.round(median).toString(),
      `${Math.round(min)}–${Math.round(max)}`,
      ofFloor.toFixed(2),
      cpuMicros.toFixed(2),
    ]),
  )
