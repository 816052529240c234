// Table of the calls of data caches, in Markdown.
import { table, whole } from '../lib/markdown.ts'
import type { CallRow } from './run-calls.ts'

export const callTable = (rows: readonly CallRow[]): string =>
  table(
    ['cache', 'CPU µs a call', 'calls/s', 'spread', '÷ first'],
    rows.map(({ name, callsPerSecond: { median, min, max }, ofFloor, cpuMicros }) => [
      name,
      cpuMicros.toFixed(2),
      whole(median),
      `${whole(min)}–${whole(max)}`,
      ofFloor.toFixed(2),
    ]),
  )
