// Runs every case with every response cache and writes docs/responses-compared.md.
// `npm run bench:responses -- peer… case… --out FOLDER` runs a part of it, or writes to a folder.
import { startRedis } from '../torture/redis-server.ts'
import { runTable } from '../verdicts/run-table.ts'
import { cases } from './cases.ts'
import { peers } from './peers.ts'
import { report } from './report.ts'
import { runCell } from './run-cell.ts'

await runTable({ page: 'responses-compared', peers, cases, run: runCell, startRedis, report })
