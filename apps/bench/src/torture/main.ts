// Runs every scenario with every cache and writes results/torture.md.
// `npm run bench:torture -- peer… scenario… --out FOLDER` runs a part of it, or writes to a folder.
import { list } from '../lib/markdown.ts'
import { inCell, runTable } from '../lib/verdict-table.ts'
import { peers } from './peers.ts'
import { scenarios } from './scenarios.ts'
import { shortfalls } from './shortfalls.ts'

await runTable({
  ...{ page: 'torture', failed: 'fails', hasIds: true },
  peers,
  cases: scenarios,
  run: inCell('torture/cell'),
  notes: (cases, verdicts) =>
    list(
      cases.map(({ id }, row) => `**${id} ${verdicts[row]?.kind}.** ${verdicts[row]?.seen}`),
      '',
    ),
  more: (cases, columns) => ({
    shortfalls: list(shortfalls(cases, columns, 'stampede'), 'Nowhere in this run.'),
  }),
})
