// Records the events of one run of the lab: those of its page, and those of the whole cache. Each
// gets its time since the start of the run.

import { type ProcessEvent, wallMs } from './messages.ts'

/** A line of the timeline. Events of the lab itself have types such as `lab.killed`. */
export interface TimelineEvent {
  /** Milliseconds since the first request of the run. Negative: before it. */
  readonly atMs: number
  /** Undefined: the event is not about one process. */
  readonly process: number | undefined
  readonly type: string
  readonly count: number
  readonly fields: Readonly<Record<string, string>>
}

export interface Recorder {
  readonly events: readonly TimelineEvent[]
  /** Sets the zero of the timeline. */
  start(): void
  /** Ignores events of other runs and other pages. */
  add(process: number, event: ProcessEvent): void
  /** Adds an event of the lab. */
  note(type: string, process?: number, fields?: Record<string, string>): void
  /** Resolves with the first event, past or future, that `matches`. Undefined after `limitMs`. */
  find(
    matches: (event: TimelineEvent) => boolean,
    limitMs: number,
  ): Promise<TimelineEvent | undefined>
}

/** Events about the whole cache and not about one page. */
const GLOBAL = new Set(['entry.purged', 'bus.gap', 'store.failed'])
/** A failing store reports each heartbeat. The timeline has room for the first reports. */
const MOST_EVENTS = 400

export function createRecorder(
  runId: string,
  publish: (event: TimelineEvent) => void = () => {},
): Recorder {
  const events: TimelineEvent[] = []
  const waiting = new Set<(event: TimelineEvent) => void>()
  let zero = wallMs()
  const push = (event: TimelineEvent) => {
    if (events.length >= MOST_EVENTS) return
    events.push(event)
    publish(event)
    for (const check of waiting) check(event)
  }
  return {
    events,
    start() {
      zero = wallMs()
      events.length = 0
    },
    add(process, { atMs, type, key, count, fields }) {
      if (!key.includes(runId) && !GLOBAL.has(type)) return
      push({ atMs: round(atMs - zero), process, type, count, fields })
    },
    note(type, process, fields = {}) {
      push({ atMs: round(wallMs() - zero), process, type, count: 1, fields })
    },
    find(matches, limitMs) {
      const past = events.find(matches)
      if (past !== undefined) return Promise.resolve(past)
      return new Promise((resolve) => {
        const end = (event?: TimelineEvent) => {
          waiting.delete(check)
          clearTimeout(timer)
          resolve(event)
        }
        const check = (event: TimelineEvent) => void (matches(event) && end(event))
        const timer = setTimeout(end, limitMs)
        waiting.add(check)
      })
    },
  }
}

function round(ms: number): number {
  return Math.round(ms * 10) / 10
}
