// Collects the events of a Stampede and sends them in batches. A stampede may have thousands of
// hits, so equal hits become one event with a count.

import { type ProcessEvent, wallMs } from './messages.ts'

/** Short enough for a drawing that moves, and long enough to join the hits of a stampede. */
const FLUSH_MS = 20

/** The fields of an event that the lab shows. */
const FIELDS = ['fence', 'stale', 'tier', 'why', 'reason', 'by', 'soft', 'behind', 'operation']

/** An event of `stampede.on('*')`. */
export interface EmittedEvent {
  readonly type: string
  readonly key: string
}

export function createEventBatch(
  send: (events: readonly ProcessEvent[]) => void,
): (event: EmittedEvent) => void {
  let batch = new Map<string, ProcessEvent>()
  const flush = () => {
    const events = [...batch.values()]
    batch = new Map()
    send(events)
  }
  return (event) => {
    if (batch.size === 0) setTimeout(flush, FLUSH_MS).unref()
    const fields = fieldsOf(event)
    const { type, key } = event
    const isHit = type === 'entry.hit'
    const name = isHit ? `${key} ${fields.stale}` : `${batch.size} ${type}`
    const earlier = batch.get(name)
    if (earlier !== undefined) batch.set(name, { ...earlier, count: earlier.count + 1 })
    else batch.set(name, { atMs: wallMs(), type, key, count: 1, fields })
  }
}

function fieldsOf(event: EmittedEvent): Record<string, string> {
  const values = event as unknown as Record<string, unknown>
  return Object.fromEntries(
    FIELDS.flatMap((name) => (values[name] === undefined ? [] : [[name, String(values[name])]])),
  )
}
