// Renders docs/torture.md from the verdicts of a run.
import { listItem } from '../compare/lib/markdown.ts'
import { rawResultsOf } from '../publish.ts'
import type { RunInfo } from '../run-info.ts'
import type { Peer } from './peer.ts'
import type { Scenario } from './scenarios/scenario.ts'
import { type Column as Judged, shortfalls } from './shortfalls.ts'
import type { Verdict } from './verdict.ts'
import { versionsOf } from './versions.ts'

export interface Column extends Judged {
  readonly peer: Peer
}

interface ReportInfo extends RunInfo {
  readonly redis: string
  readonly seconds: number
}

export function report(
  scenarios: readonly Scenario[],
  columns: readonly Column[],
  info: ReportInfo,
): string {
  const rows = scenarios.map(({ id, title }, row) => [
    id,
    title,
    ...columns.map(({ verdicts }) => cell(verdicts[row])),
  ])
  const names = columns.map(({ peer }) => peer.name)
  const totals = columns.map(({ verdicts }) => `**${count(verdicts)}**`)
  return `# Torture

Written by \`npm run bench:torture\` on ${info.date} at ${info.commit}: Node ${info.node}, Redis ${info.redis}, ${info.machine}.
The run took ${info.seconds} s. ${rawResultsOf('torture')}

Twelve faults that happen in production, tested with caches from npm and with Stampede. Every verdict, figure and
version comes from this run. Only the set-up of each cache, and the reason why a scenario was not tested, were written
before it.

- **ok**: the cache met the criterion of the row. The criterion is the same for all caches.
- **fails**: it did not.
- **–**: the scenario was not tested, for the reason given below. It does not count.

How it was measured:

- Each cache was set up as its documentation says: with memory, Redis and a bus, as far as it has them. It has every
  option of its own or of its Redis client that helps in any row. T7 and T8 also run with the default client options.
- Each cell of the table had a process and a Redis server of its own. An unhandled promise rejection fails any row,
  because it ends a Node process.
- We wrote the list, and looked for ways in which such caches fail. To add a row or to correct a set-up, edit
  \`apps/bench/src/torture\`.

| | | ${names.join(' | ')} |
|---|---|${':-:|'.repeat(columns.length)}
${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}
| | ok, of those tested | ${totals.join(' | ')} |

## Scenarios and criteria

${scenarios.map(({ id, title, story, criterion }) => listItem(`**${id}, ${title}.** ${story} The row is ok if ${criterion}`)).join('\n')}

## Where Stampede falls short

Every row that Stampede fails, and every row that was not tested with it. Then every figure in which another cache that
passed the row was better, by at least one load or by more than 50 ms.

${asList(shortfalls(scenarios, columns, 'stampede'))}

${columns.map((column) => notes(scenarios, column)).join('\n\n')}

## Run it

\`npm install && npm run bench:torture\`, with \`redis-server\` on the PATH. With names of caches or scenarios
(\`npm run bench:torture -- bentocache T6\`), it runs only these and prints the result. \`--out FOLDER\` writes the page
to a folder.
`
}

/** Every verdict with its figures, peer by peer and scenario by scenario. */
export function rawOf(
  scenarios: readonly Scenario[],
  columns: readonly Column[],
  info: ReportInfo,
): object {
  const peers = columns.map(({ peer, verdicts }) => ({
    id: peer.id,
    versions: versionsOf(peer),
    verdicts: Object.fromEntries(scenarios.map(({ id }, row) => [id, verdicts[row]])),
  }))
  return { ...info, peers }
}

function cell(verdict: Verdict | undefined): string {
  if (verdict?.kind === 'ok') return 'ok'
  return verdict?.kind === 'fails' ? '**fails**' : '–'
}

function count(verdicts: readonly Verdict[]): string {
  const tested = verdicts.filter(({ kind }) => kind !== 'n/a')
  return `${tested.filter(({ kind }) => kind === 'ok').length} / ${tested.length}`
}

const asList = (lines: readonly string[]): string =>
  lines.length === 0 ? '- Nowhere in this run.' : lines.map(listItem).join('\n')

function notes(scenarios: readonly Scenario[], { peer, verdicts }: Column): string {
  const lines = scenarios.map(({ id }, row) => {
    const verdict = verdicts[row]
    const kind = verdict?.kind === 'n/a' ? 'not tested' : verdict?.kind
    return `**${id} ${kind}.** ${verdict?.seen}`
  })
  return `## ${peer.name}

${[`Versions: ${versionsOf(peer)}.`, `Set-up: ${peer.setUp}`].map(listItem).join('\n')}

Results:

${asList(lines)}`
}
