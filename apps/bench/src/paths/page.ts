// The page of `npm run bench:paths`: one table with a pair of columns for each version of Node.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ServerRow } from '../compare/run-servers.ts'
import { fillPage, list, table } from '../lib/markdown.ts'
import { median, type Row, ratio } from '../lib/rows.ts'
import type { RunInfo } from '../lib/run.ts'

export interface PathsRun
  extends Pick<RunInfo, 'date' | 'commit' | 'node' | 'machine' | 'loadBefore'> {
  readonly redis: string
  readonly roundMs: number
  readonly rows: readonly Row<ServerRow>[]
}

const PAGE = 'benchmarks-paths'
const RAW = /^benchmarks-paths-node(\d+)\.json$/

const majorOf = ({ node }: Pick<PathsRun, 'node'>): number => Number.parseInt(node.slice(1), 10)

/** The name of the raw results. Each version of Node has a file of its own. */
export const rawName = (run: Pick<PathsRun, 'node'>): string => `${PAGE}-node${majorOf(run)}.json`

/** The published runs of a folder, by version of Node. */
export function runsIn(folder: string): PathsRun[] {
  const runs = readdirSync(folder)
    .filter((name) => RAW.test(name))
    .map((name): PathsRun => JSON.parse(readFileSync(join(folder, name), 'utf8')))
  return runs.sort((a, b) => majorOf(a) - majorOf(b))
}

export function pathsPage(runs: readonly PathsRun[]): string {
  const rows = runs[0]?.rows ?? []
  const columns = runs.flatMap((run) => [`Node ${majorOf(run)}: CPU µs`, '÷ route'])
  const cells = rows.map(({ id, name }) => [
    ...[name, wantedIn(runs, id)],
    ...runs.flatMap((run) => figuresOf(run, id)),
  ])
  const facts = runs.map((run) => {
    const { node, date, commit, redis, machine, loadBefore, roundMs } = run
    const rounds = `${run.rows[0]?.rounds.length} rounds of ${roundMs} ms`
    const where = `Redis ${redis}, ${machine}. Load ${loadBefore.toFixed(1)} before the run`
    return `Node ${node}, on ${date} at ${commit}: ${rounds}, ${where}. [Raw results](${rawName(run)}).`
  })
  return fillPage(PAGE, {
    runs: list(facts, 'No run.'),
    table: table(['path', 'wanted', ...columns], cells),
  })
}

/** The highest ratio that meets the target. Versions of Node may have different targets. */
function wantedIn(runs: readonly PathsRun[], id: string): string {
  const each = runs.map(({ rows }) => rows.find((row) => row.id === id)?.wanted)
  return [...new Set(each)].flatMap((wanted) => (wanted ? `≤ ${wanted}` : [])).join(', ')
}

/** The CPU time and its ratio to the route, in bold if it misses the target. */
function figuresOf({ rows }: PathsRun, id: string): readonly [string, string] {
  const row = rows.find((each) => each.id === id)
  if (row === undefined) return ['', '']
  const seen = ratio(rows, id, row.floor, 'cpuMicros')
  const text = seen?.toFixed(2) ?? ''
  const isMissed = seen !== undefined && row.wanted !== undefined && seen > row.wanted
  return [median(row, 'cpuMicros').toFixed(0), isMissed ? `**${text}**` : text]
}
