// The runner: measures the rows of a table in turn, round by round.
import { medianOf, ratios, type Spread, spreadOf } from './statistics.ts'

export interface RowSpec {
  readonly id: string
  /** Its name in the table. */
  readonly name: string
  readonly kind: 'floor' | 'uncached' | 'ours' | 'peer'
  /** Id of the row that it is divided by. */
  readonly floor?: string
}

/** The figures of one round, by name. */
export type Measured = Readonly<Record<string, number>>

/** A row that is set up: usually a process of its own. */
export interface Contestant extends AsyncDisposable {
  readonly warmUp?: () => Promise<unknown>
  readonly measure: () => Promise<Measured>
}

export interface Scenario<S extends RowSpec> {
  readonly title: string
  readonly rows: readonly S[]
  readonly rounds: number
  readonly setUp: (row: S) => Promise<Contestant>
}

export type Row<S extends RowSpec = RowSpec> = S & { readonly rounds: readonly Measured[] }

/** Every second round is in reverse order, so that no row profits from the one before it. */
export async function runRows<S extends RowSpec>(scenario: Scenario<S>): Promise<Row<S>[]> {
  const { title, rows, rounds, setUp } = scenario
  const all: { row: S; contestant: Contestant; measured: Measured[] }[] = []
  try {
    for (const row of rows) all.push({ row, contestant: await setUp(row), measured: [] })
    for (const { contestant } of all) await contestant.warmUp?.()
    for (let round = 1; round <= rounds; round++) {
      for (const { contestant, measured } of round % 2 ? all : all.toReversed())
        measured.push(await contestant.measure())
      console.error(`${title}: round ${round} of ${rounds}`)
    }
  } finally {
    for (const { contestant } of all) await contestant[Symbol.asyncDispose]()
  }
  return all.map(({ row, measured }) => ({ ...row, rounds: measured }))
}

/** Rows with these ids, and the rows that they are divided by. No ids: all. */
export const withFloors = <S extends RowSpec>(rows: readonly S[], ids: ReadonlySet<string>) => {
  const asked = rows.filter(({ id }) => ids.size === 0 || ids.has(id))
  return rows.filter((row) => asked.includes(row) || asked.some(({ floor }) => floor === row.id))
}

export const valuesOf = ({ rounds }: Row, figure: string): number[] =>
  rounds.map((measured) => measured[figure] ?? Number.NaN)

export const spread = (row: Row, figure: string): Spread => spreadOf(valuesOf(row, figure))
export const median = (row: Row, figure: string): number => medianOf(valuesOf(row, figure))

/** The median of the ratios of two rows, each taken within one round. */
export function ratio(
  rows: readonly Row[],
  id: string,
  other: string | undefined,
  figure: string,
): number | undefined {
  const [upper, lower] = [id, other].map((each) => rows.find((row) => row.id === each))
  return upper && lower && medianOf(ratios(valuesOf(upper, figure), valuesOf(lower, figure)))
}
