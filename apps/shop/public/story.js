// The timeline as sentences: one per event, and equal hits of a process together.

import { counted } from './format.js'

const WAIT_ENDS = {
  'wake-up': 'is woken, and gets the result',
  'lease-end': 'stops waiting, because the lease has ended',
  gap: 'looks up again, because its connection broke',
  lost: 'looks up again, because its connection broke',
}

/** Sentences by event type. The subject is the process. */
const SENTENCES = {
  'lease.granted': () => 'gets the lease',
  'lease.lost': () => 'has lost its lease',
  'fill.started': ({ fields }) =>
    fields.fence === undefined ? 'runs the query without a lease' : 'runs the query',
  'fill.committed': () => 'stores the result',
  'fill.fenced': () => 'has its commit refused, because its lease is over',
  'fill.failed': () => 'has a failed query',
  'wait.started': () => 'waits for the holder of the lease',
  'wait.ended': ({ fields }) => WAIT_ENDS[fields.by] ?? 'looks up again',
  'wait.timed-out': () => 'has waited long enough',
  'entry.hit': ({ fields, count }) =>
    fields.stale === 'true'
      ? `serves ${counted(count, 'stale response', 'stale responses')}`
      : `serves ${counted(count, 'response', 'responses')} from the cache`,
  'entry.purged': () => 'applies the purge',
  'bus.gap': () => 'may have missed purges, and drops its copies',
  'store.failed': ({ fields }) => `gets no reply from Redis (${fields.operation})`,
  'lab.killed': () => 'is killed',
  'lab.frozen': () => 'is frozen',
  'lab.resumed': () => 'goes on',
  'lab.up': () => 'accepts requests',
  'lab.purged': () => 'is asked to purge the page',
}

/** Sentences of events without a process. */
const ELSEWHERE = {
  'lab.burst': ({ fields }) => `${fields.requests} requests arrive`,
  'lab.redis-frozen': () => 'Redis is frozen',
  'lab.redis-resumed': () => 'Redis goes on',
  'lab.bus-cut': () => 'The Pub/Sub connections are cut',
  'lab.bus-free': () => 'Pub/Sub works again',
  'lab.origin-failed': () => 'The database fails',
  'lab.origin-restored': () => 'The database works again',
}

/** @param {any[]} events in their order @returns {{ atMs: number, text: string }[]} */
export function storyOf(events) {
  return merged(events).flatMap((event) => {
    const { atMs, process, type } = event
    const words = process === undefined ? ELSEWHERE[type] : SENTENCES[type]
    if (words === undefined) return []
    return [
      { atMs, text: process === undefined ? words(event) : `Process ${process} ${words(event)}` },
    ]
  })
}

/** Adds hits to the last equal event of the process, and drops repeated failures. */
function merged(events) {
  const lines = []
  const last = new Map()
  for (const event of events) {
    const name = `${event.process} ${event.type} ${event.fields.stale ?? event.fields.operation ?? ''}`
    const earlier = last.get(event.process)
    const isRepeat = earlier?.name === name
    if (isRepeat && (event.type === 'entry.hit' || event.type === 'store.failed')) {
      earlier.line.count += event.count
      continue
    }
    const line = { ...event }
    last.set(event.process, { name, line })
    lines.push(line)
  }
  return lines
}
