// Renders docs/responses-compared.md from the verdicts of a run.
import { listItem } from '../compare/lib/markdown.ts'
import type { Verdict } from '../idempotency/verdict.ts'
import { installed } from '../idempotency/versions.ts'
import { rawResultsOf } from '../publish.ts'
import type { RunInfo } from '../run-info.ts'
import type { Case } from './case.ts'
import type { Peer } from './peer.ts'

export interface Column {
  readonly peer: Peer
  /** One verdict per case, in the order of the cases. */
  readonly verdicts: readonly Verdict[]
}

interface ReportInfo extends RunInfo {
  readonly redis: string
}

export function report(cases: readonly Case[], columns: readonly Column[], info: ReportInfo) {
  const rows = cases.map(({ title }, row) => [
    `${row + 1}`,
    title,
    ...columns.map(({ verdicts }) => cell(verdicts[row])),
  ])
  const totals = columns.map(({ verdicts }) => `**${count(verdicts)}**`)
  return `# Response caches, compared

Written by \`npm run bench:responses\` on ${info.date} at ${info.commit}: Node ${info.node}, Redis ${info.redis}.
${rawResultsOf('responses-compared')}

One list of cases, run against response caches from npm and against Stampede. Every verdict, fact and version comes from
this run. Only the set-up of each cache, and the reason why a case was not tested, were written before it.

- **ok**: the cache does what the row says.
- **wrong**: it does not. The notes below say what it did.
- **–**: the set-up does not cover the case, so it was not tested. It does not count.

How it was measured:

- Each cache was set up as its README says, with default options. Some of them have options that change a row, such as
  a list of status codes or a key of your own.
- Each cell of the table had a process and a Redis server of its own. Two servers are two objects of the cache in
  that process. They share Redis if the set-up has one.
- We wrote the list, and looked for ways in which such caches fail. To add a row or to correct a set-up, edit
  \`apps/bench/src/responses\`.

| # | must | ${columns.map(({ peer }) => peer.name).join(' | ')} |
|--:|---|${':-:|'.repeat(columns.length)}
${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}
| | ok, of those tested | ${totals.join(' | ')} |

${columns.map((column) => notes(cases, column)).join('\n\n')}
`
}

/** All verdicts, by cache and case. */
export function rawOf(
  cases: readonly Case[],
  columns: readonly Column[],
  info: ReportInfo,
): object {
  const peers = columns.map(({ peer, verdicts }) => ({
    id: peer.id,
    versions: peer.packages.map(installed).join(', '),
    verdicts: Object.fromEntries(cases.map(({ id }, row) => [id, verdicts[row]])),
  }))
  return { ...info, peers }
}

function cell(verdict: Verdict | undefined): string {
  if (verdict?.kind === 'ok') return 'ok'
  return verdict?.kind === 'wrong' ? '**wrong**' : '–'
}

function count(verdicts: readonly Verdict[]): string {
  const tested = verdicts.filter(({ kind }) => kind !== 'not supported')
  return `${tested.filter(({ kind }) => kind === 'ok').length} / ${tested.length}`
}

function notes(cases: readonly Case[], { peer, verdicts }: Column): string {
  const facts = verdicts.flatMap((verdict, row) => {
    const of = `${row + 1}, ${cases[row]?.id}`
    if (verdict.kind === 'wrong') return listItem(`${of}: ${verdict.fact}`)
    return verdict.kind === 'not supported' ? listItem(`${of}, not tested: ${verdict.reason}`) : []
  })
  const packages = peer.packages.map(installed).join(', ')
  const about = [`Versions: ${packages}.`, `Framework: ${peer.framework}.`, `Set-up: ${peer.setUp}`]
  return `## ${peer.name.replaceAll('`', '')}

${about.map(listItem).join('\n')}

Results:

${(facts.length === 0 ? ['- No row is wrong.'] : facts).join('\n')}`
}
