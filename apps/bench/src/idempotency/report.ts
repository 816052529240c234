// Renders docs/idempotency-compared.md from the verdicts of a run.
import { listItem } from '../compare/lib/markdown.ts'
import { rawResultsOf } from '../publish.ts'
import type { TableInfo } from '../verdicts/run-table.ts'
import { type Column, tableOf, versionsOf } from '../verdicts/table.ts'
import type { Case } from './cases/case.ts'
import type { Peer } from './peer.ts'
import { absent } from './peers.ts'

export function report(
  cases: readonly Case[],
  columns: ReadonlyArray<Column<Peer>>,
  info: TableInfo,
): string {
  return `# Idempotency keys, compared

Written by \`npm run bench:idempotency\` on ${info.date} at ${info.commit}: Node ${info.node}, Redis ${info.redis}.
${rawResultsOf('idempotency-compared')}

One list of hard cases, run against libraries from npm and against Stampede. Every verdict, fact and version comes from
this run. Only the set-up of each library, and the reason why a case was not tested, were written before it.

- **ok**: the library does what the row says.
- **wrong**: it does not. The notes below say what it did.
- **–**: the library leaves this to its caller, so it was not tested. It does not count.

How it was measured:

- Each library was set up as its documentation says, with the options listed below. Each case had a server process and a
  Redis of its own, which writes every change to disk before it acknowledges it. Redis clients have default options.
- Handlers are written as usual in their framework.
- Some rows are a matter of policy. For example, Stripe replays a 500 on purpose. The row says what a plain retry gets.
- We wrote the list, and looked for ways in which such libraries fail. To add a row or to correct a set-up, edit
  \`apps/bench/src/idempotency\`.

${tableOf(cases, columns)}

${columns.map((column) => notes(cases, column)).join('\n\n')}

## Not compared

These packages were not in the npm registry of this project on ${absent.date}. They may be available elsewhere:

${absent.names.map((name) => `- \`${name}\``).join('\n')}
`
}

function notes(cases: readonly Case[], { peer, verdicts }: Column<Peer>): string {
  const lines: string[] = []
  const details: string[] = []
  const notTested = new Map<string, number[]>()
  for (const [index, verdict] of verdicts.entries()) {
    const row = index + 1
    if (verdict.kind === 'wrong')
      lines.push(listItem(`${row}, ${cases[index]?.id}: ${verdict.fact}`))
    if (verdict.kind === 'ok' && verdict.detail) details.push(`${row} (${verdict.detail})`)
    if (verdict.kind === 'not supported')
      notTested.set(verdict.reason, [...(notTested.get(verdict.reason) ?? []), row])
  }
  const facts = lines.length === 0 ? ['- No row is wrong.'] : lines
  if (details.length > 0)
    facts.push(listItem(`Responses in rows that are ok: ${details.join(', ')}.`))
  for (const [reason, rows] of notTested)
    facts.push(listItem(`Not tested, ${rows.join(', ')}: ${reason}.`))
  const about = [
    `Versions: ${versionsOf(peer)}.`,
    `Framework: ${peer.framework}.`,
    `Set-up: ${peer.setUp}`,
  ]
  return `## ${peer.name}

${about.map(listItem).join('\n')}

Results:

${facts.join('\n')}`
}
