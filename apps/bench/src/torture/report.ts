// The matrix as Markdown: everything in it comes from a run.
import { rawResultsOf } from '../publish.ts'
import type { Surroundings } from '../surroundings.ts'
import type { Peer } from './peer.ts'
import type { Scenario } from './scenarios/scenario.ts'
import { type Column as Judged, shortfalls } from './shortfalls.ts'
import type { Verdict } from './verdict.ts'
import { versionsOf } from './versions.ts'

export interface Column extends Judged {
  readonly peer: Peer
}

interface Around extends Surroundings {
  readonly redis: string
  readonly seconds: number
}

export function report(
  scenarios: readonly Scenario[],
  columns: readonly Column[],
  around: Around,
): string {
  const rows = scenarios.map(({ id, title }, row) => [
    id,
    title,
    ...columns.map(({ verdicts }) => cell(verdicts[row])),
  ])
  const names = columns.map(({ peer }) => peer.name)
  const totals = columns.map(({ verdicts }) => `**${count(verdicts)}**`)
  return `# Torture

Written by \`npm run bench:torture\` on ${around.date} at ${around.commit}: Node ${around.node}, Redis ${around.redis}, ${around.machine}; it took
${around.seconds} s. Twelve things that go wrong in production, run against caches on npm and against ours. Every verdict, figure and version
below is what the run saw; only how each was set up, and what it was not asked, was written down before. ${rawResultsOf('torture')}

- **ok**: met the criterion of the row, which is the same for all. **fails**: did not. **–**: not asked, for the
  reason given below; not counted. What each was seen to do is below, also where it was ok.
- Each was set up as its documentation says for memory, Redis and a bus, as far as it has them, with every option of it or of its
  Redis client that helps in any row. Where a row shows what an option is worth, it was run without it too.
- Each cell had a process and a Redis server of its own. An unhandled rejection fails any row: it ends a Node process.
- The list is ours, and it was made by looking for ways in which such caches fail: run it, add a row, correct a set-up in
  \`apps/bench/src/torture\`.

| | | ${names.join(' | ')} |
|---|---|${':-:|'.repeat(columns.length)}
${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}
| | ok, of those asked | ${totals.join(' | ')} |

## What is done, and what is asked for

${scenarios.map(({ id, title, story, criterion }) => `- **${id}, ${title}.** ${story} *ok:* ${criterion}`).join('\n')}

## Where Stampede falls short

From the same run: what it fails, what it could not be asked, and every figure in which another that passed the row was better by a
call or by more than 50 ms.

${asList(shortfalls(scenarios, columns, 'stampede'))}

${columns.map((column) => notes(scenarios, column)).join('\n\n')}

## Run it

\`npm install && npm run bench:torture\`, with \`redis-server\` on the PATH. \`npm run bench:torture -- bentocache T6\` runs a part of it, which
is printed and not written here; \`--out FOLDER\` writes it elsewhere.
`
}

/** Every verdict with its figures, peer by peer and scenario by scenario. */
export function rawOf(
  scenarios: readonly Scenario[],
  columns: readonly Column[],
  around: Around,
): object {
  const peers = columns.map(({ peer, verdicts }) => ({
    id: peer.id,
    versions: versionsOf(peer),
    verdicts: Object.fromEntries(scenarios.map(({ id }, row) => [id, verdicts[row]])),
  }))
  return { ...around, peers }
}

function cell(verdict: Verdict | undefined): string {
  if (verdict?.kind === 'ok') return 'ok'
  return verdict?.kind === 'fails' ? '**fails**' : '–'
}

function count(verdicts: readonly Verdict[]): string {
  const asked = verdicts.filter(({ kind }) => kind !== 'n/a')
  return `${asked.filter(({ kind }) => kind === 'ok').length} / ${asked.length}`
}

const asList = (lines: readonly string[]): string =>
  lines.length === 0 ? '- Nowhere in this run.' : lines.map((line) => `- ${line}`).join('\n')

function notes(scenarios: readonly Scenario[], { peer, verdicts }: Column): string {
  const lines = scenarios.map(({ id }, row) => {
    const verdict = verdicts[row]
    const kind = verdict?.kind === 'n/a' ? 'not asked' : verdict?.kind
    return `${id} ${kind}: ${verdict?.seen}.`
  })
  return `## ${peer.name}

${versionsOf(peer)}. Set up: ${peer.setUp}.

${asList(lines)}`
}
