// Tables copied from the pages of the other benchmarks.
import { readFileSync } from 'node:fs'

const DOCS = new URL('../../../../../docs/', import.meta.url)

export const lockTable = (): string => tableOf('benchmarks-locks.md')

/** The total of each column of the idempotency page, as one row per library. */
export function idempotencyTable(): string {
  const lines = tableOf('idempotency-compared.md').split('\n')
  const cells = (line = ''): string[] => line.split('|').slice(3, -1)
  const [names, total] = [cells(lines[0]), cells(lines.at(-1))]
  const rows = names.map((name, column) => `|${name}|${total[column]}|`)
  return ['| | correct cases |', '|---|--:|', ...rows].join('\n')
}

/** Returns the first table of a page. */
function tableOf(page: string): string {
  const lines = readFileSync(new URL(page, DOCS), 'utf8').split('\n')
  const from = lines.findIndex((line) => line.startsWith('|'))
  const end = lines.findIndex((line, index) => index > from && !line.startsWith('|'))
  return lines.slice(from, end).join('\n')
}
