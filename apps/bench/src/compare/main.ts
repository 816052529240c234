// Compares caches side by side and writes docs/benchmarks.md: `npm run bench [-- --quick --only PARTS --rows IDS]`.

import { runHits } from './hit/run-hits.ts'
import { hitTable } from './hit/table.ts'
import { readRunOptions } from './lib/run-options.ts'

// Ends what was started, which listens to `exit`.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

const { parts, isQuick, rows } = readRunOptions(process.argv.slice(2))
if (parts.includes('hit')) {
  const plan = isQuick
    ? { rounds: 3, roundMs: 700, warmUpMs: 2_000, rows }
    : { rounds: 7, roundMs: 1_500, warmUpMs: 4_000, rows }
  console.log(hitTable(await runHits(plan)))
}
