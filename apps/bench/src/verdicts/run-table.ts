// Runs every case with every peer, one at a time, and publishes the page of the verdicts.
import { DOCS, publish, readArguments } from '../publish.ts'
import { type RunInfo, runInfo } from '../run-info.ts'
import { type Column, rawOf, type TableCase, type TablePeer } from './table.ts'
import type { Verdict } from './verdict.ts'

export interface TableInfo extends RunInfo {
  readonly redis: string
}

interface Table<Peer extends TablePeer, Case extends TableCase> {
  /** Name of the page in docs. */
  readonly page: string
  readonly peers: readonly Peer[]
  readonly cases: readonly Case[]
  run(peer: Peer, each: Case): Promise<Verdict>
  startRedis(): Promise<AsyncDisposable & { readonly version: string }>
  report(cases: readonly Case[], columns: ReadonlyArray<Column<Peer>>, info: TableInfo): string
}

/** Arguments of the program: ids of peers and cases to run, and `--out FOLDER`. */
export async function runTable<Peer extends TablePeer, Case extends TableCase>(
  table: Table<Peer, Case>,
): Promise<void> {
  // Child processes end when this process emits `exit`.
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
  const { folder, ids } = readArguments(process.argv.slice(2))
  const chosen = <T extends { id: string }>(all: readonly T[]): readonly T[] =>
    all.some(({ id }) => ids.has(id)) ? all.filter(({ id }) => ids.has(id)) : all
  const cases = chosen(table.cases)
  // The commit is read first, because somebody may commit during the run.
  const start = runInfo()
  const columns: Array<Column<Peer>> = []
  for (const peer of chosen(table.peers)) {
    const verdicts: Verdict[] = []
    for (const each of cases) {
      const verdict = await table.run(peer, each)
      verdicts.push(verdict)
      console.error(`${peer.id} ${each.id}: ${Object.values(verdict).join(', ')}`)
    }
    columns.push({ peer, verdicts })
  }
  // A part of the table is printed and not published.
  const target = folder ?? (ids.size === 0 ? DOCS : undefined)
  if (target === undefined) return
  const redis = await table.startRedis()
  const info = { ...start, redis: redis.version }
  await redis[Symbol.asyncDispose]()
  publish(target, table.page, table.report(cases, columns, info), rawOf(cases, columns, info))
}
