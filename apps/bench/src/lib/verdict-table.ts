// Runs every case with every compared package, one at a time, and publishes the page of verdicts.
import { setTimeout as sleep } from 'node:timers/promises'
import { startChild } from './child.ts'
import { fillPage, table } from './markdown.ts'
import { startRedis } from './redis.ts'
import { chosen, publish, RESULTS, readArguments, runInfo, valuesOf } from './run.ts'
import { notTested, short, type Verdict, wrong } from './verdict.ts'

export interface TableCase {
  readonly id: string
  /** The row of the table: what a package must do to be ok. */
  readonly title: string
}

export interface TablePeer {
  readonly id: string
  /** The head of its column. */
  readonly name: string
  /** Cases that it does not cover, by case id, with the reason. They are not tested. */
  readonly notSupported?: Readonly<Record<string, string>>
}

export interface Column {
  readonly peer: TablePeer
  /** One verdict per case, in the order of the cases. */
  readonly verdicts: readonly Verdict[]
}

export interface VerdictTable<P extends TablePeer, C extends TableCase> {
  readonly page: string
  readonly peers: readonly P[]
  readonly cases: readonly C[]
  readonly run: (peer: P, each: C) => Promise<Verdict>
  /** The word for a row that is not ok. */
  readonly failed: 'fails' | 'wrong'
  /** True: the first column has the ids of the cases. Else their numbers. */
  readonly hasIds?: boolean
  /** The notes below the table about one package. */
  readonly notes: (cases: readonly C[], verdicts: readonly Verdict[]) => string
  /** More values for the template of the page. */
  readonly more?: (cases: readonly C[], columns: readonly Column[]) => Record<string, string>
}

/** Arguments of the program: ids of packages and cases to run, and `--out FOLDER`. */
export async function runTable<P extends TablePeer, C extends TableCase>(
  bench: VerdictTable<P, C>,
): Promise<void> {
  const { folder, ids } = readArguments(process.argv.slice(2))
  const cases = chosen(bench.cases, ids)
  // The commit is read first, because somebody may commit during the run.
  const info = runInfo()
  const columns: Column[] = []
  for (const peer of chosen(bench.peers, ids)) {
    const verdicts: Verdict[] = []
    for (const each of cases) {
      const left = peer.notSupported?.[each.id]
      const verdict = left === undefined ? await bench.run(peer, each) : notTested(left)
      verdicts.push(verdict)
      console.error(`${peer.id} ${each.id}: ${verdict.kind}: ${verdict.seen}`)
    }
    columns.push({ peer, verdicts })
  }
  // A part of the table is printed and not published.
  const target = folder ?? (ids.size === 0 ? RESULTS : undefined)
  if (target === undefined) return console.log(verdictTable(bench, cases, columns))
  await using redis = await startRedis()
  const values = { ...valuesOf(bench.page, info), redis: redis.version }
  const notes = columns.map(({ peer, verdicts }) => [peer.id, bench.notes(cases, verdicts)])
  const page = fillPage(bench.page, {
    ...values,
    ...bench.more?.(cases, columns),
    ...Object.fromEntries(notes),
    table: verdictTable(bench, cases, columns),
  })
  const peers = columns.map(({ peer: { id }, verdicts }) => ({
    id,
    verdicts: Object.fromEntries(cases.map((each, row) => [each.id, verdicts[row]])),
  }))
  publish(target, bench.page, page, { ...info, redis: redis.version, peers })
}

function verdictTable<P extends TablePeer, C extends TableCase>(
  { failed, hasIds = false }: VerdictTable<P, C>,
  cases: readonly C[],
  columns: readonly Column[],
): string {
  const cell = (verdict?: Verdict) =>
    verdict?.kind === 'ok' ? 'ok' : verdict?.kind === 'fails' ? `**${failed}**` : '–'
  const count = ({ verdicts }: Column) => {
    const tested = verdicts.filter(({ kind }) => kind !== 'not tested')
    return `**${tested.filter(({ kind }) => kind === 'ok').length} / ${tested.length}**`
  }
  const rows = cases.map(({ id, title }, row) => [
    hasIds ? id : `${row + 1}`,
    title,
    ...columns.map(({ verdicts }) => cell(verdicts[row])),
  ])
  const total = ['', 'ok, of those tested', ...columns.map(count)]
  const head = [...(hasIds ? ['', ''] : ['#', 'must']), ...columns.map(({ peer }) => peer.name)]
  return table(head, [...rows, total], ['--:', '---', ...columns.map(() => ':-:')])
}

/** No case should take this long. */
const HARD_LIMIT_MS = 30_000

/** The module of a cell. `start` gets the ids of package and case, and port and pid of a Redis. */
interface CellModule {
  start(peer: string, id: string, port: number, pid: number): { run(): Promise<Verdict> }
}

/** Runs one case with one package, with a Redis and a process of its own, and ends them. */
export const inCell =
  (module: string) =>
  async (peer: TablePeer, each: TableCase): Promise<Verdict> => {
    await using redis = await startRedis()
    const args = [peer.id, each.id, redis.port, redis.pid] as const
    await using child = await startChild<CellModule>(module, [...args])
    const died = () => {
      const error = child
        .errors()
        .split('\n')
        .find((line) => /^\w*Error\b/.test(line))
      return wrong(`The process died: ${short(error ?? child.errors())}.`)
    }
    return await Promise.race([
      child.call.run().catch((error) => (child.hasEnded() ? died() : wrong(short(String(error))))),
      sleep(HARD_LIMIT_MS, wrong(`It was not over in ${HARD_LIMIT_MS / 1_000} s.`), { ref: false }),
    ])
  }
