// Lists rows that a cache fails, and figures in which another cache that passed the row is better.
import type { Peer } from './peer.ts'
import type { Scenario } from './scenarios/scenario.ts'
import { counted, type Figure, type Verdict } from './verdict.ts'

export interface Column {
  readonly peer: Pick<Peer, 'id' | 'name'>
  /** One verdict per scenario, in their order. */
  readonly verdicts: readonly Verdict[]
}

/** A smaller difference is noise: a busy machine adds that much. */
const CHANCE = { ms: 50, calls: 0 }

export function shortfalls(
  scenarios: readonly Pick<Scenario, 'id' | 'title'>[],
  columns: readonly Column[],
  peerId: string,
): string[] {
  const own = columns.find(({ peer }) => peer.id === peerId)
  const others = columns.filter((column) => column !== own)
  return scenarios.flatMap(({ id, title }, row) => {
    const verdict = own?.verdicts[row]
    if (verdict === undefined) return []
    const where = `${id}, ${title}`
    if (verdict.kind === 'n/a') return [`${where}: not tested. ${verdict.seen}`]
    const failed = verdict.kind === 'fails' ? [`${where}: fails. ${verdict.seen}`] : []
    return [...failed, ...verdict.figures.flatMap((figure) => behind(where, figure, others, row))]
  })
}

function behind(where: string, own: Figure, others: readonly Column[], row: number): string[] {
  const better = others.flatMap(({ peer, verdicts }) => {
    const figure = passed(verdicts[row])?.find(({ label }) => label === own.label)
    return figure && isBetter(figure, own) ? [`${peer.name} ${inWords(figure)}`] : []
  })
  return better.length === 0
    ? []
    : [`${where}, ${own.label}: ${inWords(own)}; ${better.join(', ')}.`]
}

const passed = (verdict: Verdict | undefined) =>
  verdict?.kind === 'ok' ? verdict.figures : undefined

const isBetter = (theirs: Figure, own: Figure): boolean =>
  !theirs.never && (own.never === true || own.value - theirs.value > CHANCE[own.unit])

function inWords({ value, unit, never }: Figure): string {
  const amount = unit === 'calls' ? counted(value, 'call') : `${Math.round(value)} ms`
  return never ? `not in ${amount}` : amount
}
