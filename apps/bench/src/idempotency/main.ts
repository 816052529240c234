// Runs the list against every peer and writes docs/idempotency-compared.md.
// `npm run bench:idempotency -- peer… case… --out FOLDER` runs a part of it, or writes elsewhere.
import { runTable } from '../verdicts/run-table.ts'
import { cases } from './cases.ts'
import { peers } from './peers.ts'
import { startRedis } from './redis-process.ts'
import { report } from './report.ts'
import { runCase } from './run-case.ts'

await runTable({ page: 'idempotency-compared', peers, cases, run: runCase, startRedis, report })
