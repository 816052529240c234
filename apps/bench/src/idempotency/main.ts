// Runs the list against every peer and writes results/idempotency-compared.md.
// `npm run bench:idempotency -- peer… case… --out FOLDER` runs a part of it, or writes elsewhere.
// With `postgres`, it measures what records in PostgreSQL cost instead.
import { list } from '../lib/markdown.ts'
import { readArguments } from '../lib/run.ts'
import type { Verdict } from '../lib/verdict.ts'
import { runTable, type TableCase } from '../lib/verdict-table.ts'
import { crashes, duplicates } from './cases/faults.ts'
import { failures, fidelity, identity, keys } from './cases/replays.ts'
import { peers } from './peers.ts'
import { runPostgres } from './postgres.ts'
import { runCase } from './scene.ts'

const given = readArguments(process.argv.slice(2))
if (given.ids.has('postgres')) await runPostgres(given)
else
  await runTable({
    ...{ page: 'idempotency-compared', failed: 'wrong' },
    peers,
    cases: [...duplicates, ...fidelity, ...identity, ...keys, ...failures, ...crashes],
    run: runCase,
    notes,
  })

function notes(cases: readonly TableCase[], verdicts: readonly Verdict[]): string {
  const rows = verdicts.map((verdict, index) => ({ ...verdict, row: index + 1 }))
  const wrong = rows.filter(({ kind }) => kind === 'fails')
  const facts = wrong.map(({ row, seen }) => `${row}, ${cases[row - 1]?.id}: ${seen}`)
  if (facts.length === 0) facts.push('No row is wrong.')
  const details = rows.filter(({ kind, seen }) => kind === 'ok' && seen !== '')
  if (details.length > 0) {
    const seen = details.map(({ row, seen }) => `${row} (${seen})`)
    facts.push(`Responses in rows that are ok: ${seen.join(', ')}.`)
  }
  const left = rows.filter(({ kind }) => kind === 'not tested')
  for (const reason of new Set(left.map(({ seen }) => seen))) {
    const of = left.filter(({ seen }) => seen === reason).map(({ row }) => row)
    facts.push(`Not tested, ${of.join(', ')}: ${reason}.`)
  }
  return list(facts, '')
}
