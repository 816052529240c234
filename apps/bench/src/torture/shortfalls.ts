// Lists rows that a cache fails, and figures in which another cache that passed the row is better.
import { counted, type Figure } from '../lib/verdict.ts'
import type { Column, TableCase } from '../lib/verdict-table.ts'

/** A smaller difference is noise: a busy machine adds that much. */
const CHANCE = { ms: 50, calls: 0 }

export function shortfalls(
  cases: readonly TableCase[],
  columns: readonly Column[],
  peerId: string,
): string[] {
  const own = columns.find(({ peer }) => peer.id === peerId)
  const others = columns.filter((column) => column !== own)
  return cases.flatMap(({ id, title }, row) => {
    const { kind, seen = '', figures = [] } = own?.verdicts[row] ?? {}
    const where = `${id}, ${title}`
    if (kind === 'not tested') return [`${where}: not tested. ${seen}`]
    const better = figures.flatMap((figure) => {
      const found = others.flatMap(({ peer, verdicts }) => {
        const verdict = verdicts[row]
        if (verdict?.kind !== 'ok') return []
        const theirs = verdict.figures?.find(({ label }) => label === figure.label)
        return theirs && isBetter(theirs, figure) ? [`${peer.name} ${inWords(theirs)}`] : []
      })
      if (found.length === 0) return []
      return [`${where}, ${figure.label}: ${inWords(figure)}; ${found.join(', ')}.`]
    })
    return kind === 'fails' ? [`${where}: fails. ${seen}`, ...better] : better
  })
}

const isBetter = (theirs: Figure, own: Figure): boolean =>
  !theirs.never && (own.never === true || own.value - theirs.value > CHANCE[own.unit])

function inWords({ value, unit, never }: Figure): string {
  const amount = unit === 'calls' ? counted(value, 'call') : `${Math.round(value)} ms`
  return never ? `not in ${amount}` : amount
}
