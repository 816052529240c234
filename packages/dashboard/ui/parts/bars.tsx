// Counters by reason: a list with a bar for each share.

import { count } from '../format.ts'

interface BarsProps {
  readonly counts: Readonly<Record<string, number>>
  readonly labels?: Readonly<Record<string, string>>
  readonly empty: string
}

export function Bars({ counts, labels = {}, empty }: BarsProps) {
  const entries = Object.entries(counts).filter(([, value]) => value > 0)
  entries.sort(([, a], [, b]) => b - a)
  const most = Math.max(1, ...entries.map(([, value]) => value))
  if (entries.length === 0) return <p class="empty">{empty}</p>
  return (
    <dl class="bars">
      {entries.slice(0, 8).map(([name, value]) => (
        <div key={name} style={{ '--share': value / most }}>
          <dt>{labels[name] ?? name}</dt>
          <dd>{count(value)}</dd>
        </div>
      ))}
    </dl>
  )
}
