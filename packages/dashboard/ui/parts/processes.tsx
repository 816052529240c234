// The table of processes, with those that are gone.

import type { FleetView, GoneView, ProcessView } from '../../src/fleet-view.ts'
import { bytes, count, duration, percent } from '../format.ts'
import { Text } from './key-text.tsx'
import { type Column, Panel, Table } from './panel.tsx'

const COLUMNS: readonly Column<ProcessView>[] = [
  {
    title: 'Process',
    cell: ({ host, pid, isSelf, isSilent, silentMs }) => (
      <>
        <Text text={`${host}:${pid}`} />
        {isSelf && <span class="tag">this one</span>}
        {isSilent && <span class="tag bad">silent for {duration(silentMs)}</span>}
      </>
    ),
  },
  {
    title: 'Store',
    cell: ({ store }) =>
      store.available ? (
        <span class="state good">up</span>
      ) : (
        <span class="state bad">unavailable</span>
      ),
  },
  { title: 'Hit ratio', isNumber: true, cell: (row) => percent(row.hits, row.hits + row.misses) },
  { title: 'Requests', isNumber: true, cell: ({ requests }) => count(requests) },
  { title: 'Saved', isNumber: true, cell: ({ savedMs }) => duration(savedMs) },
  { title: 'Leases', isNumber: true, cell: ({ leases }) => count(leases) },
  {
    title: 'Confirmed',
    isNumber: true,
    cell: ({ store, silentMs }) =>
      store.confirmedAgoMs === undefined ? '–' : `${duration(store.confirmedAgoMs + silentMs)} ago`,
  },
  {
    title: 'Memory',
    isNumber: true,
    cell: ({ l1 }) => `${bytes(l1.bytes ?? 0)} of ${bytes(l1.maxBytes ?? 0)}`,
  },
  { title: 'Failures', isNumber: true, cell: ({ store }) => count(store.failures) },
  { title: 'Gaps', isNumber: true, cell: ({ store }) => count(store.gaps) },
  { title: 'Up', isNumber: true, cell: ({ uptimeMs }) => duration(uptimeMs) },
]

export function Processes({ view }: { view: FleetView }) {
  const { processes, gone } = view
  return (
    <Panel
      title="Processes"
      note={`each reports every ${duration(view.reportEveryMs)}`}
      class="wide"
    >
      <Table
        caption="Processes of the fleet"
        rows={processes}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        rowClass={({ isSilent }) => (isSilent ? 'silent' : '')}
        empty="No process reports."
      />
      {gone.length > 0 && (
        <ul class="gone">
          {gone.map((each) => (
            <Gone key={each.id} gone={each} />
          ))}
        </ul>
      )}
    </Panel>
  )
}

function Gone({ gone }: { gone: GoneView }) {
  const { host, pid, wasClosed, goneForMs } = gone
  return (
    <li>
      <Text text={`${host}:${pid}`} />{' '}
      {wasClosed ? 'closed its dashboard' : 'stopped reporting and is gone'}, {duration(goneForMs)}{' '}
      ago
    </li>
  )
}
