// The fleet page.

import type { FleetView } from '../../src/fleet-view.ts'
import { Chart } from '../parts/chart.tsx'
import { Events } from '../parts/events.tsx'
import { Figures } from '../parts/figures.tsx'
import { HotKeys, NotCached, Reasons, Routes } from '../parts/lists.tsx'
import { Panel } from '../parts/panel.tsx'
import { Processes } from '../parts/processes.tsx'
import type { Purges } from '../parts/purge-form.tsx'
import { Work } from '../parts/work.tsx'

interface FleetProps {
  readonly view: FleetView
  readonly purges: Purges
  readonly theme: string
}

export function Fleet({ view, purges, theme }: FleetProps) {
  return (
    <>
      <h1 class="hidden">Fleet</h1>
      <Figures view={view} />
      <div class="grid">
        <Work view={view} />
        <Charts view={view} theme={theme} />
        <Processes view={view} />
        <HotKeys view={view} />
        <Routes view={view} onPurge={(value) => purges.ask({ kind: 'route', value })} />
        <NotCached view={view} />
        <Reasons view={view} />
        <Panel title="Latest events" note="newest first, without hits" class="wide">
          <Events events={view.events.slice(0, 14)} />
        </Panel>
      </div>
    </>
  )
}

function Charts({ view, theme }: { view: FleetView; theme: string }) {
  const { endAt, bucketMs, series } = view.history
  const buckets = series.fresh.length
  const times = Array.from(
    { length: buckets },
    (_, at) => (endAt - (buckets - 1 - at) * bucketMs) / 1_000,
  )
  const perSecond = (values: readonly number[]): number[] =>
    values.map((value) => (value * 1_000) / bucketMs)
  return (
    <Panel title="The last ten minutes" class="wide charts">
      <Chart
        title="Requests by outcome"
        isStacked
        times={times}
        theme={theme}
        series={[
          { name: 'fresh', colour: 'leaf', values: perSecond(series.fresh) },
          { name: 'stale', colour: 'amber', values: perSecond(series.stale) },
          { name: 'miss', colour: 'cobalt', values: perSecond(series.miss) },
          { name: 'bypass', colour: 'grey', values: perSecond(series.bypass) },
        ]}
      />
      <Chart
        title="Stampedes held back"
        times={times}
        theme={theme}
        series={[
          { name: 'origin runs', colour: 'seal', values: perSecond(series.origin) },
          { name: 'joined a run', colour: 'cobalt', values: perSecond(series.collapsed) },
        ]}
      />
    </Panel>
  )
}
