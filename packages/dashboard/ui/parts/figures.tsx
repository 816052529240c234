// The figures at the top of the fleet page.

import type { ComponentChildren } from 'preact'
import type { FleetView } from '../../src/fleet-view.ts'
import { bytes, count, duration, percent, plural, rate } from '../format.ts'

/** The last minute, in buckets of the history. */
const MINUTE_MS = 60_000

export function Figures({ view }: { view: FleetView }) {
  const { totals, history, processes } = view
  const buckets = MINUTE_MS / history.bucketMs
  const last = (name: keyof typeof history.series): number =>
    history.series[name].slice(-buckets).reduce((sum, value) => sum + value, 0)
  const seconds = (Math.min(buckets, history.series.fresh.length) * history.bucketMs) / 1_000 || 1
  const requests = last('fresh') + last('stale') + last('miss') + last('bypass')
  const { lastMinute, sinceStart } = view.ratios
  const stale = Object.values(totals?.stale ?? {}).reduce((sum, value) => sum + value, 0)
  return (
    <dl class="key-figures">
      <Figure name="Hit ratio" value={ratio(lastMinute.hitRatio)}>
        last minute; {ratio(sinceStart.hitRatio)} since start
      </Figure>
      <Figure name="Requests saved" value={ratio(lastMinute.saved)}>
        from the origin; {ratio(sinceStart.saved)} since start
      </Figure>
      <Figure name="Requests" value={rate(requests / seconds)} unit="/s">
        {count(requestsIn(totals))} since start
      </Figure>
      <Figure name="Origin time saved" value={duration(totals?.origin.savedMs ?? 0)}>
        {duration(last('saved'))} in the last minute
      </Figure>
      <Figure name="Origin runs" value={rate(last('origin') / seconds)} unit="/s">
        {plural(totals?.collapsed ?? 0, 'request')} joined a run
      </Figure>
      <Figure name="Stale served" value={count(stale)}>
        {count(last('stale'))} in the last minute
      </Figure>
      <Bound processes={processes} />
      <Figure name="Memory" value={bytes(totals?.l1.bytes ?? 0)}>
        {count(totals?.l1.entries ?? 0)} entries in{' '}
        {plural(processes.length, 'process', 'processes')}
      </Figure>
    </dl>
  )
}

const ratio = (share: number | undefined): string =>
  share === undefined ? percent(0, 0) : percent(share, 1)

/** Requests and calls that used the cache. */
const requestsIn = (totals: FleetView['totals']): number =>
  totals === undefined ? 0 : totals.hits.l1 + totals.hits.l2 + totals.misses

/** How much older than a purge a copy in memory may be at most. */
function Bound({ processes }: { processes: FleetView['processes'] }) {
  const ages = processes.map(({ store, silentMs }) =>
    store.confirmedAgoMs === undefined ? undefined : store.confirmedAgoMs + silentMs,
  )
  const known = ages.filter((age) => age !== undefined)
  const unknown = ages.length - known.length
  return (
    <Figure name="Staleness bound" value={known.length === 0 ? '–' : duration(Math.max(...known))}>
      {unknown > 0
        ? `unknown in ${plural(unknown, 'process', 'processes')}`
        : 'copies behind a purge'}
    </Figure>
  )
}

interface FigureProps {
  readonly name: string
  readonly value: string
  readonly unit?: string
  readonly children: ComponentChildren
}

function Figure({ name, value, unit, children }: FigureProps) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <span class="figure">
          {value}
          {unit && <small>{unit}</small>}
        </span>
        <span class="figure-note">{children}</span>
      </dd>
    </div>
  )
}
