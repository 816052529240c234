// The command line of `npm run bench`: which parts run, and for how long.

export const PARTS = ['hit', 'data', 'l2', 'open', 'growth'] as const
export type Part = (typeof PARTS)[number]

export interface RunOptions {
  readonly parts: readonly Part[]
  /** A short run that only shows that everything works. Its figures mean nothing. */
  readonly isQuick: boolean
  /** Ids of the rows to run, with their floors. Empty: all rows. */
  readonly rows: readonly string[]
  /**
   * Folder for the page. Undefined: a whole run writes to docs/, and a part of a run is printed.
   */
  readonly folder: string | undefined
}

export const USAGE = `npm run bench                     all of it, some 14 minutes, to docs/benchmarks.md
npm run bench -- --only hit,l2    parts, printed: ${PARTS.join(', ')}
npm run bench -- --rows ID,ID     rows of them, with their floors; ids are in apps/bench/src/compare
npm run bench -- --quick          short: to see that it runs, its figures say nothing
npm run bench -- --out FOLDER     page, plots and raw results to a folder`

/** Throws on unknown arguments. */
export function readRunOptions(args: readonly string[]): RunOptions {
  let parts: readonly Part[] = PARTS
  let isQuick = false
  let rows: readonly string[] = []
  let folder: string | undefined
  for (let i = 0; i < args.length; i++) {
    if (args[i] === '--quick') isQuick = true
    else if (args[i] === '--only') parts = (args[++i] ?? '').split(',').map(readPart)
    else if (args[i] === '--rows') rows = (args[++i] ?? '').split(',')
    else if (args[i] === '--out') folder = args[++i]
    else throw new Error(`bench: unknown argument ${args[i]}`)
  }
  return { parts, isQuick, rows, folder }
}

function readPart(name: string): Part {
  const part = PARTS.find((each) => each === name)
  if (part === undefined) throw new Error(`bench: no part named "${name}"`)
  return part
}
