// What the timeline draws, from the events of a run: spans and marks for each process, for Redis
// and for the database.

/**
 * @typedef {{ kind: string, from: number, to: number | undefined }} Span `to`: undefined while open
 * @typedef {{ kind: string, at: number, count: number, process?: number }} Mark
 * @typedef {{ spans: Span[], marks: Mark[] }} Row
 */

/** A run of the lease holder, or of a process without a lease, ends with one of these. */
const FILL_ENDS = new Set([
  'fill.committed',
  'fill.fenced',
  'fill.failed',
  'fill.passed',
  'fill.abandoned',
])
const MARKS = {
  'fill.committed': 'commit',
  'fill.fenced': 'refused',
  'fill.failed': 'failed',
  'entry.purged': 'purged',
  'store.failed': 'store-failed',
  'bus.gap': 'store-failed',
  'lab.killed': 'killed',
}
/** Spans of the lab: what begins one, what ends it, and on which row it is. */
const FAULTS = [
  { kind: 'frozen', from: 'lab.frozen', to: 'lab.resumed' },
  { kind: 'down', from: 'lab.killed', to: 'lab.up' },
  { kind: 'frozen', from: 'lab.redis-frozen', to: 'lab.redis-resumed', row: 'redis' },
  { kind: 'cut', from: 'lab.bus-cut', to: 'lab.bus-free', row: 'redis' },
  { kind: 'down', from: 'lab.origin-failed', to: 'lab.origin-restored', row: 'database' },
]

/** @param {any[]} events in any order @param {number} processes */
export function modelOf(events, processes) {
  const burst = events.find(({ type }) => type === 'lab.burst')?.atMs ?? 0
  // Events before the requests fill the caches. They are not part of the drawing.
  const shown = events
    .map((event) => ({ ...event, atMs: event.atMs - burst }))
    .filter(({ type, atMs }) => atMs >= 0 || type.startsWith('lab.'))
    .map((event) => ({ ...event, atMs: Math.max(event.atMs, 0) }))
    .sort((a, b) => a.atMs - b.atMs)
  const rows = Array.from({ length: processes }, (_, i) => rowOf(shown, i + 1))
  cutLeases(rows, shown)
  return {
    rows,
    redis: { spans: faultSpans(shown, 'redis'), marks: [] },
    database: {
      spans: faultSpans(shown, 'database'),
      marks: marksOf(shown, (event) => (event.type === 'fill.started' ? 'query' : undefined)),
    },
    purges: shown.filter(({ type }) => type === 'lab.purged').map(({ atMs }) => atMs),
    endMs: Math.max(0, ...shown.map(({ atMs }) => atMs)),
    events: shown,
  }
}

/** @returns {Row} */
function rowOf(events, process) {
  const own = events.filter((event) => event.process === process)
  const isEnd = ({ type }) => FILL_ENDS.has(type) || type === 'lab.killed'
  const isWaitEnd = ({ type }) => /^wait\.(ended|timed-out)$/.test(type) || type === 'lab.killed'
  return {
    spans: [
      ...spansOf(own, 'work', ({ type }) => type === 'fill.started', isEnd),
      ...spansOf(own, 'wait', ({ type }) => type === 'wait.started', isWaitEnd),
      ...faultSpans(own, undefined),
    ],
    marks: marksOf(own, ({ type, fields }) =>
      type === 'entry.hit' ? (fields.stale === 'true' ? 'stale' : 'hit') : MARKS[type],
    ),
  }
}

function faultSpans(events, row) {
  return FAULTS.filter((fault) => fault.row === row).flatMap(({ kind, from, to }) =>
    spansOf(
      events,
      kind,
      ({ type }) => type === from,
      ({ type }) => type === to,
    ),
  )
}

/** @returns {Span[]} */
function spansOf(events, kind, opens, closes) {
  const spans = []
  for (const event of events) {
    const open = spans.findLast((span) => span.to === undefined)
    if (open !== undefined && closes(event)) open.to = event.atMs
    if (open === undefined && opens(event)) {
      const lease = event.fields.fence
      spans.push({ kind, from: event.atMs, to: undefined, lease })
    }
  }
  return spans
}

function marksOf(events, kindOf) {
  return events.flatMap((event) => {
    const kind = kindOf(event)
    const { atMs: at, count, process } = event
    return kind === undefined ? [] : [{ kind, at, count, process }]
  })
}

/**
 * A lease is over when another process gets one. The rest of the work of its holder becomes a span
 * of its own: its commit will be refused.
 */
function cutLeases(rows, events) {
  const grants = events.filter(({ type }) => type === 'lease.granted')
  rows.forEach((row, index) => {
    for (const span of row.spans.filter(({ kind }) => kind === 'work')) {
      if (span.lease === undefined) span.kind = 'unleased'
      const isLater = ({ process, atMs }) =>
        process !== index + 1 && atMs > span.from && (span.to === undefined || atMs < span.to)
      const next = span.lease === undefined ? undefined : grants.find(isLater)
      if (next === undefined) continue
      row.spans.push({ kind: 'late', from: next.atMs, to: span.to })
      span.to = next.atMs
    }
  })
}
