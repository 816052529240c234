// A table of verdicts: a row for each case, a column for each compared package.
import type { Verdict } from './verdict.ts'
import { installed } from './versions.ts'

export interface TableCase {
  readonly id: string
  readonly title: string
}

export interface TablePeer {
  readonly id: string
  /** The head of its column. */
  readonly name: string
  /** npm packages whose versions the page gives, the peer's own first. */
  readonly packages: readonly string[]
}

export interface Column<Peer extends TablePeer> {
  readonly peer: Peer
  /** One verdict per case, in the order of the cases. */
  readonly verdicts: readonly Verdict[]
}

/** The table in Markdown. Its last row counts the cases that are ok. */
export function tableOf(
  cases: readonly TableCase[],
  columns: ReadonlyArray<Column<TablePeer>>,
): string {
  const rows = cases.map(({ title }, row) => [
    `${row + 1}`,
    title,
    ...columns.map(({ verdicts }) => cell(verdicts[row])),
  ])
  const totals = columns.map(({ verdicts }) => `**${count(verdicts)}**`)
  return `| # | must | ${columns.map(({ peer }) => peer.name).join(' | ')} |
|--:|---|${':-:|'.repeat(columns.length)}
${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}
| | ok, of those tested | ${totals.join(' | ')} |`
}

/** All verdicts, by package and case. */
export function rawOf(
  cases: readonly TableCase[],
  columns: ReadonlyArray<Column<TablePeer>>,
  run: object,
): object {
  const peers = columns.map(({ peer, verdicts }) => ({
    id: peer.id,
    versions: versionsOf(peer),
    verdicts: Object.fromEntries(cases.map(({ id }, row) => [id, verdicts[row]])),
  }))
  return { ...run, peers }
}

export const versionsOf = ({ packages }: TablePeer): string => packages.map(installed).join(', ')

function cell(verdict: Verdict | undefined): string {
  if (verdict?.kind === 'ok') return 'ok'
  return verdict?.kind === 'wrong' ? '**wrong**' : '–'
}

function count(verdicts: readonly Verdict[]): string {
  const tested = verdicts.filter(({ kind }) => kind !== 'not supported')
  return `${tested.filter(({ kind }) => kind === 'ok').length} / ${tested.length}`
}
