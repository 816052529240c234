// Events of the fleet, newest first.

import type { FleetView } from '../../src/fleet-view.ts'
import { duration, time } from '../format.ts'
import { KeyLink, Text } from './key-text.tsx'
import { Table } from './panel.tsx'

type Event = FleetView['events'][number]

const BAD = /failed|lost|gap|fenced|timed-out|abandoned|unreadable|unavailable/

export function Events({
  events,
  isOneKey = false,
}: {
  events: readonly Event[]
  isOneKey?: boolean
}) {
  const columns = [
    { title: 'Time', cell: ({ at }: Event) => time(at) },
    {
      title: 'Event',
      cell: ({ type }: Event) => (
        <span class={BAD.test(type) ? 'state bad' : 'state'}>
          <Text text={type} />
        </span>
      ),
    },
    ...(isOneKey
      ? []
      : [
          {
            title: 'Key',
            cell: ({ key, id }: Event) => <KeyLink name={key} id={linkOf(key, id)} />,
          },
        ]),
    { title: 'Facts', cell: ({ fields }: Event) => <Text text={factsOf(fields)} /> },
    { title: 'Process', isExtra: true, cell: (event: Event) => <Text text={event.process} /> },
  ]
  return (
    <Table
      caption="Events, newest first"
      class="stacked"
      rows={events}
      columns={columns}
      rowKey={({ at, type, id, process }) => `${at} ${type} ${id} ${process}`}
      empty={isOneKey ? 'No process remembers an event of this key.' : 'No event yet.'}
    />
  )
}

/** A purge of a tag, path or route has no page. */
const linkOf = (key: string, id: string): string => (/^(?:http:|d:)/.test(id) ? id : key && '~')

const factsOf = (fields: Event['fields']): string =>
  Object.entries(fields)
    .flatMap(([name, value]) => factOf(name, value) ?? [])
    .join(', ')

function factOf(name: string, value: string | number): string | undefined {
  switch (name) {
    case 'fence':
      return undefined
    case 'behind':
      return value === 'true' ? 'in the background' : undefined
    case 'soft':
      return value === 'true' ? 'soft' : 'hard'
    case 'elapsedMs':
      return `after ${duration(Number(value))}`
    case 'busyForMs':
      return `lease for ${duration(Number(value))}`
    case 'reason':
    case 'error':
    case 'why':
      return String(value)
    default:
      return `${name} ${value}`
  }
}
