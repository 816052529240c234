// The page of locks: those that the processes hold, and on demand those in the store.

import { useState } from 'preact/hooks'
import type { FleetView, LockView } from '../../src/fleet-view.ts'
import type { LocksView } from '../../src/locks-page.ts'
import { askLocks } from '../api.ts'
import { count, duration } from '../format.ts'
import { Bars } from '../parts/bars.tsx'
import { Text } from '../parts/key-text.tsx'
import { Panel, Table } from '../parts/panel.tsx'

type StoredLock = LocksView['locks'][number]

export function Locks({ view }: { view: FleetView }) {
  const { stats, held } = view.locks
  const { waitedMs, heldMs, held: now = 0, waiting = 0, ...counts } = stats
  const holders = new Map(held.map(({ fence, holder }) => [fence, holder]))
  return (
    <>
      <h1>Locks</h1>
      <dl class="key-figures">
        <div>
          <dt>Held</dt>
          <dd>
            <span class="figure">{count(now)}</span>
            <span class="figure-note">for {duration(heldMs ?? 0)} in sum, so far</span>
          </dd>
        </div>
        <div>
          <dt>Waiting</dt>
          <dd>
            <span class="figure">{count(waiting)}</span>
            <span class="figure-note">{duration(waitedMs ?? 0)} waited in sum</span>
          </dd>
        </div>
      </dl>
      <div class="grid">
        <Panel title="Held by processes of the fleet" class="two">
          <Table
            caption="Locks that processes of the fleet hold"
            rows={held}
            columns={[
              { title: 'Lock', cell: ({ key }: LockView) => <Text text={key} /> },
              { title: 'Holder', cell: ({ holder }: LockView) => <Text text={holder} /> },
              { title: 'For', isNumber: true, cell: (lock: LockView) => duration(lock.heldMs) },
              { title: 'Fence', isNumber: true, cell: ({ fence }: LockView) => fence || '–' },
            ]}
            rowKey={({ id, fence }) => `${id} ${fence}`}
            empty="No process holds a lock, or no dashboard was given the option locks."
          />
        </Panel>
        <Panel title="Calls">
          <Bars counts={counts} empty="No call yet." />
        </Panel>
        <Stored holders={holders} />
      </div>
    </>
  )
}

/** Reads one page of the store for each press of the button, so that the store has little work. */
function Stored({ holders }: { holders: ReadonlyMap<string, string> }) {
  const [page, setPage] = useState<LocksView>()
  const [error, setError] = useState('')
  const read = async (cursor: string): Promise<void> => {
    try {
      setPage(await askLocks(cursor))
      setError('')
    } catch (failure) {
      setError((failure as Error).message)
    }
  }
  return (
    <Panel title="In the store, with their queues" class="wide">
      <p class="buttons">
        <button type="button" onClick={() => void read('')}>
          {page === undefined ? 'Read from the store' : 'Read again'}
        </button>
        {page !== undefined && page.cursor !== '' && (
          <button type="button" onClick={() => void read(page.cursor)}>
            Next page
          </button>
        )}
      </p>
      {error !== '' && <p class="problem">{error}</p>}
      {page && (
        <Table
          caption="Locks in the store"
          rows={page.locks}
          columns={[
            { title: 'Lock', cell: ({ key }: StoredLock) => <Text text={key} /> },
            {
              title: 'Holder',
              cell: ({ fence, token }: StoredLock) => (
                <Text text={holders.get(fence) ?? `token ${token}…`} />
              ),
            },
            {
              title: 'For',
              isNumber: true,
              cell: ({ heldForMs }: StoredLock) =>
                heldForMs === undefined ? '–' : duration(heldForMs),
            },
            {
              title: 'Lease left',
              isNumber: true,
              cell: ({ remainingMs }: StoredLock) => duration(remainingMs),
            },
            { title: 'Queue', isNumber: true, cell: ({ queue }: StoredLock) => count(queue) },
            { title: 'Fence', isNumber: true, cell: ({ fence }: StoredLock) => fence },
          ]}
          rowKey={({ key }) => key}
          empty={
            page.cursor === ''
              ? 'No lock is held.'
              : 'No lock on this page. Go on with the next one.'
          }
        />
      )}
    </Panel>
  )
}
