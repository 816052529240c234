// Hottest keys, hottest routes, requests that are not cached, and the counters by reason.

import type { FleetView } from '../../src/fleet-view.ts'
import { bytes, count, duration, percent } from '../format.ts'
import { Bars } from './bars.tsx'
import { KeyLink, Text } from './key-text.tsx'
import { Panel, Table } from './panel.tsx'

type HotKey = FleetView['hotKeys'][number]

export function HotKeys({ view }: { view: FleetView }) {
  return (
    <Panel title="Hottest keys" note="recent hits count more">
      <Table
        caption="Keys with the most hits"
        rows={view.hotKeys.slice(0, 8)}
        columns={[
          { title: 'Key', cell: ({ key, id }: HotKey) => <KeyLink name={key} id={id} /> },
          { title: 'Hits', isNumber: true, cell: ({ hits }: HotKey) => count(hits) },
        ]}
        rowKey={({ id }) => id}
        empty="No key was hit yet."
      />
    </Panel>
  )
}

type Route = FleetView['routes'][number]
const of = (route: Route, name: string): number => Number(route[name] ?? 0)

export function Routes({ view, onPurge }: { view: FleetView; onPurge: (route: string) => void }) {
  const columns = [
    { title: 'Route', cell: ({ route }: Route) => <Text text={route} /> },
    {
      title: 'Requests',
      isNumber: true,
      cell: (route: Route) => count(requestsOf(route)),
    },
    {
      title: 'Hit ratio',
      isNumber: true,
      cell: (route: Route) => percent(hitsOf(route), hitsOf(route) + of(route, 'misses')),
    },
    { title: 'Run', isNumber: true, cell: (route: Route) => meanRun(route) },
    { title: 'Saved', isNumber: true, cell: (route: Route) => duration(of(route, 'savedMs')) },
    {
      title: 'Sent',
      isNumber: true,
      isExtra: true,
      cell: (route: Route) => bytes(of(route, 'bytes')),
    },
    {
      title: 'Purge',
      cell: ({ route }: Route) =>
        route.startsWith('/') && (
          <button type="button" class="small" onClick={() => onPurge(route)}>
            Purge<span class="hidden"> {route}</span>
          </button>
        ),
    },
  ]
  return (
    <Panel title="Hottest routes" class="two">
      <Table
        caption="Routes with the most requests"
        rows={view.routes.slice(0, 8)}
        columns={columns}
        rowKey={({ route }) => route}
        empty="No request yet."
      />
    </Panel>
  )
}

const hitsOf = (route: Route): number => of(route, 'hits') + of(route, 'stale')

const requestsOf = (route: Route): number =>
  ['hits', 'stale', 'misses', 'bypasses'].reduce((sum, name) => sum + of(route, name), 0)

const meanRun = (route: Route): string =>
  of(route, 'runs') === 0 ? '–' : duration(of(route, 'originMs') / of(route, 'runs'))

type NotCachedRow = FleetView['notCached'][number]

export function NotCached({ view }: { view: FleetView }) {
  const columns = [
    { title: 'Route', cell: ({ route }: NotCachedRow) => <Text text={route} /> },
    { title: 'Reason', cell: ({ reason }: NotCachedRow) => <Text text={reason} /> },
    {
      title: 'Requests',
      isNumber: true,
      cell: ({ requests }: NotCachedRow) => count(requests),
    },
    {
      title: 'Fix',
      cell: ({ fix, page }: NotCachedRow) =>
        fix && (
          <>
            {fix} <code class="source">{page}</code>
          </>
        ),
    },
  ]
  return (
    <Panel
      title="Not cached, and why"
      note="bypasses, and responses that were not stored"
      class="wide"
    >
      <Table
        caption="Reasons by route"
        class="stacked fixes"
        rows={view.notCached}
        columns={columns}
        rowKey={({ route, reason }) => `${route} ${reason}`}
        empty="Every response could be stored, and no request bypassed the cache."
      />
    </Panel>
  )
}

const FILL_REASONS = {
  absent: 'nothing stored',
  expired: 'expired',
  purged: 'purged',
  stale: 'stale, refreshed behind',
  'hit-for-miss': 'not shareable',
}

const STALE_REASONS = {
  revalidate: 'while it is refreshed',
  'soft-timeout': 'the fill was late',
  'origin-queue': 'no concurrency slot',
  'if-error': 'the origin failed',
}

export function Reasons({ view }: { view: FleetView }) {
  const { totals } = view
  return (
    <>
      <Panel title="Why keys were filled">
        <Bars counts={totals?.leases ?? {}} labels={FILL_REASONS} empty="No fill yet." />
      </Panel>
      <Panel title="How fills ended">
        <Bars counts={fillsOf(view)} empty="No fill yet." />
      </Panel>
      <Panel title="Why stale was served">
        <Bars
          counts={totals?.stale ?? {}}
          labels={STALE_REASONS}
          empty="Nothing stale was served."
        />
      </Panel>
      <Panel title="Idempotency keys">
        <Bars counts={totals?.idempotency.outcomes ?? {}} empty="No idempotency key was used." />
      </Panel>
    </>
  )
}

function fillsOf({ totals }: FleetView): Record<string, number> {
  const { started: _started, ...ended } = totals?.fills ?? {}
  const names: Readonly<Record<string, string>> = {
    committed: 'stored',
    fenced: 'refused by the store',
    passed: 'not shareable',
  }
  return Object.fromEntries(
    Object.entries(ended).map(([name, value]) => [names[name] ?? name, value]),
  )
}
