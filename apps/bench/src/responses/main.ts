// Runs every case with every response cache and writes results/responses-compared.md.
// `npm run bench:responses -- peer… case… --out FOLDER` runs a part of it, or writes to a folder.
import { list } from '../lib/markdown.ts'
import { inCell, runTable } from '../lib/verdict-table.ts'
import { cases } from './cases.ts'
import { peers } from './peers.ts'

await runTable({
  ...{ page: 'responses-compared', failed: 'wrong', peers, cases },
  run: inCell('responses/cell'),
  notes(shown, verdicts) {
    const facts = verdicts.flatMap(({ kind, seen }, row) => {
      const of = `${row + 1}, ${shown[row]?.id}`
      if (kind === 'fails') return [`${of}: ${seen}`]
      return kind === 'not tested' ? [`${of}, not tested: ${seen}`] : []
    })
    return list(facts, 'No row is wrong.')
  },
})
