// The table as Markdown: everything in it comes from a run.
import { rawResultsOf } from '../publish.ts'
import type { Surroundings } from '../surroundings.ts'
import type { Case } from './cases/case.ts'
import type { Peer } from './peer.ts'
import type { Verdict } from './verdict.ts'
import { installed } from './versions.ts'

export interface Column {
  readonly peer: Peer
  /** One a case, in the order of the cases. */
  readonly verdicts: readonly Verdict[]
}

interface Around extends Surroundings {
  readonly redis: string
  readonly absent: { readonly asked: string; readonly names: readonly string[] }
}

export function report(cases: readonly Case[], columns: readonly Column[], around: Around) {
  const rows = cases.map(({ title }, row) => [
    `${row + 1}`,
    title,
    ...columns.map(({ verdicts }) => cell(verdicts[row])),
  ])
  const totals = columns.map(({ verdicts }) => `**${count(verdicts)}**`)
  const names = columns.map(({ peer }) => peer.name)
  return `# Idempotency keys, compared

Written by \`npm run bench:idempotency\` on ${around.date} at ${around.commit}: Node ${around.node}, Redis ${around.redis}. One adversarial list, run
against what npm has and against ours. Every verdict, fact and version below is what the run saw; only how each was set up, and what it
was not asked, was written down before. ${rawResultsOf('idempotency-compared')}

- **ok**: did what the row says. **wrong**: did not; the notes say what was seen. **–**: it leaves that to its caller, so it
  was not asked; not counted.
- Each was set up as its documentation says, with the options named below. Each case had a server process and a Redis of its own
  (every write on disk before it is acknowledged); handlers are written in the idiom of the framework, and Redis clients are as they come.
- Some rows are policy: Stripe, for one, remembers a 500 on purpose. They say what a plain retry gets.
- The list is ours, and it was made by looking for ways in which such software fails: run it, add a row, correct a set-up in
  \`apps/bench/src/idempotency\`.

| # | must | ${names.join(' | ')} |
|--:|---|${':-:|'.repeat(columns.length)}
${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}
| | ok, of those asked | ${totals.join(' | ')} |

${columns.map((column) => notes(cases, column)).join('\n\n')}

## Not compared

Not in the npm registry that this project installs from (asked on ${around.absent.asked}); they may be had elsewhere:
${around.absent.names.map((name) => `\`${name}\``).join(', ')}.
`
}

/** Every verdict, peer by peer and case by case. */
export function rawOf(cases: readonly Case[], columns: readonly Column[], around: Around): object {
  const { absent: _absent, ...run } = around
  const peers = columns.map(({ peer, verdicts }) => ({
    id: peer.id,
    versions: peer.packages.map(installed).join(', '),
    verdicts: Object.fromEntries(cases.map(({ id }, row) => [id, verdicts[row]])),
  }))
  return { ...run, peers }
}

function cell(verdict: Verdict | undefined): string {
  if (verdict?.kind === 'ok') return 'ok'
  return verdict?.kind === 'wrong' ? '**wrong**' : '–'
}

function count(verdicts: readonly Verdict[]): string {
  const asked = verdicts.filter(({ kind }) => kind !== 'not supported')
  return `${asked.filter(({ kind }) => kind === 'ok').length} / ${asked.length}`
}

function notes(cases: readonly Case[], { peer, verdicts }: Column): string {
  const lines: string[] = []
  const details: string[] = []
  const left = new Map<string, number[]>()
  for (const [index, verdict] of verdicts.entries()) {
    const row = index + 1
    if (verdict.kind === 'wrong') lines.push(`- ${row}, ${cases[index]?.id}: ${verdict.fact}`)
    if (verdict.kind === 'ok' && verdict.detail) details.push(`${row} (${verdict.detail})`)
    if (verdict.kind === 'not supported')
      left.set(verdict.reason, [...(left.get(verdict.reason) ?? []), row])
  }
  const facts = lines.length === 0 ? ['- Nothing was wrong.'] : lines
  if (details.length > 0) facts.push(`- Seen where it was ok: ${details.join(', ')}.`)
  for (const [reason, rows] of left) facts.push(`- Not asked, ${rows.join(', ')}: ${reason}.`)
  const packages = peer.packages.map(installed).join(', ')
  return `## ${peer.name}

${packages}; ${peer.framework}. Set up: ${peer.setUp}.

${facts.join('\n')}`
}
