// Renders docs/responses-compared.md from the verdicts of a run.
import { listItem } from '../compare/lib/markdown.ts'
import { rawResultsOf } from '../publish.ts'
import type { TableInfo } from '../verdicts/run-table.ts'
import { type Column, tableOf, versionsOf } from '../verdicts/table.ts'
import type { Case } from './case.ts'
import type { Peer } from './peer.ts'

export function report(
  cases: readonly Case[],
  columns: ReadonlyArray<Column<Peer>>,
  info: TableInfo,
): string {
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

${tableOf(cases, columns)}

${columns.map((column) => notes(cases, column)).join('\n\n')}
`
}

function notes(cases: readonly Case[], { peer, verdicts }: Column<Peer>): string {
  const facts = verdicts.flatMap((verdict, row) => {
    const of = `${row + 1}, ${cases[row]?.id}`
    if (verdict.kind === 'wrong') return listItem(`${of}: ${verdict.fact}`)
    return verdict.kind === 'not supported' ? listItem(`${of}, not tested: ${verdict.reason}`) : []
  })
  const about = [
    `Versions: ${versionsOf(peer)}.`,
    `Framework: ${peer.framework}.`,
    `Set-up: ${peer.setUp}`,
  ]
  return `## ${peer.name.replaceAll('`', '')}

${about.map(listItem).join('\n')}

Results:

${(facts.length === 0 ? ['- No row is wrong.'] : facts).join('\n')}`
}
