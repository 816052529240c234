// The keys under work: for each key, the holder of its lease and the waiters behind it.

import type { FleetView, WorkView } from '../../src/fleet-view.ts'
import { count, duration, plural } from '../format.ts'
import { KeyLink, Text } from './key-text.tsx'
import { Panel } from './panel.tsx'

/** Keys that are drawn. The ones with the most waiters come first. */
const MOST_SHOWN = 8

export function Work({ view }: { view: FleetView }) {
  const { work } = view
  const waiters = work.reduce((sum, each) => sum + each.waiters, 0)
  const note =
    work.length === 0 ? undefined : `${plural(work.length, 'key')}, ${plural(waiters, 'waiter')}`
  return (
    <Panel title="Keys under work" note={note} class="work">
      {work.length === 0 ? (
        <p class="empty">
          No process fills a key right now. A stampede shows up here while it lasts.
        </p>
      ) : (
        <ol class="herds">
          {work.slice(0, MOST_SHOWN).map((each) => (
            <Herd key={each.id} work={each} />
          ))}
        </ol>
      )}
      {work.length > MOST_SHOWN && (
        <p class="more">and {plural(work.length - MOST_SHOWN, 'more key')}</p>
      )}
    </Panel>
  )
}

/** Dots that are drawn at most. More waiters are a figure only. */
const MOST_DOTS = 400

function Herd({ work }: { work: WorkView }) {
  const { key, id, holder, isHolderSilent, states, waiters, processes, ageMs } = work
  const dots = Math.min(waiters, MOST_DOTS)
  return (
    <li class={isHolderSilent ? 'herd silent' : 'herd'}>
      <p class="herd-key">
        <KeyLink name={key} id={id} />
      </p>
      <p class="herd-holder">
        <span class="box" aria-hidden="true" />
        {holder === undefined ? (
          <span>{stateText(states)}</span>
        ) : (
          <span>
            held by <Text text={holder} />
            {isHolderSilent && <strong> (silent)</strong>}
          </span>
        )}
      </p>
      <p
        class="herd-dots"
        aria-hidden="true"
        style={{ '--columns': Math.ceil(dots / 3), '--rows': Math.min(3, dots) }}
      />
      <p class="herd-facts">
        <b>{waiters === 0 ? 'no' : count(waiters)}</b> {waiters === 1 ? 'waiter' : 'waiters'} in{' '}
        {plural(processes, 'process', 'processes')}, for {duration(ageMs)}
      </p>
    </li>
  )
}

const STATE_TEXT: Readonly<Record<string, string>> = {
  'looking-up': 'looked up in the store',
  waiting: 'held by a process that does not report',
  queued: 'waits for a concurrency slot',
  filling: 'filled without a lease',
  refreshing: 'refreshed without a lease',
}

function stateText(states: WorkView['states']): string {
  const order = ['filling', 'refreshing', 'waiting', 'queued', 'looking-up']
  const state = order.find((each) => states[each] !== undefined) ?? ''
  return STATE_TEXT[state] ?? state
}
