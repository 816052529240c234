// The sentence that answers "why is this URL, or is it not, served from the cache?".

import type { ReportedEvent } from '@stampede/core/operator'
import { duration } from './format.ts'
import { freshForMs, leaseText, purgeText, type RecordView } from './records.ts'

export interface Findings {
  readonly url: string
  /** The prefix of the keys that were read. */
  readonly prefix: string
  readonly bypass: string | undefined
  readonly record: RecordView
  /** Newest first. */
  readonly events: readonly ReportedEvent[]
  /** The URL with the other scheme, if something is stored for that one. */
  readonly otherUrl: string | undefined
}

export function answerOf(findings: Findings): string {
  return `A request for ${findings.url} ${reasonOf(findings)}.`
}

function reasonOf(findings: Findings): string {
  const { bypass, record, events } = findings
  if (bypass !== undefined) return `bypasses the cache and runs the handler: ${bypass}`
  return entryReason(record) ?? recordReason(record, events) ?? absenceReason(findings)
}

/** The reason if an entry decides. */
function entryReason({ state, info, facts }: RecordView): string | undefined {
  if (info === undefined || facts === undefined) {
    return state === 'unreadable'
      ? 'is a miss, because this version cannot read what is stored'
      : undefined
  }
  const freshMs = freshForMs(info, facts)
  const age = `was stored ${duration(info.ageMs)} ago`
  if (state === 'fresh') {
    return `is a hit: the response ${age} and is fresh for ${duration(freshMs)} more`
  }
  if (state === 'purged') {
    const hard = facts.purges.find(({ soft }) => !soft)
    if (hard !== undefined)
      return `is a miss, because the response ${age} and was purged ${purgeText(hard)}`
    return `is a miss, because purges may have been lost since the response ${age}`
  }
  const soft = facts.purges.find((purge) => purge.soft)
  const since = `has been stale for ${duration(-freshMs)}`
  const stale = soft === undefined ? since : `is stale since its purge ${purgeText(soft)}`
  if (state === 'stale')
    return `is served stale: the response ${age} and ${stale}; one process refreshes it`
  if (info.lease !== undefined) return undefined
  if (state === 'stale-if-error') {
    return `runs the handler: the response ${age}, ${stale}, and is only served if the handler fails`
  }
  return `runs the handler: the response ${age} and ${stale}; only a 304 of the handler makes it fresh again`
}

/** The reason if a lease, a failure or hit-for-miss decides. */
function recordReason({ info }: RecordView, events: readonly ReportedEvent[]): string | undefined {
  const { passForMs, lease, failure } = info ?? {}
  if (passForMs !== undefined) {
    const passed = events.find(({ type }) => type === 'fill.passed')
    const reason = passed === undefined ? '' : ` (${passed.fields.reason})`
    return `runs the handler, because the last response could not be shared${reason}; hit-for-miss ends in ${duration(passForMs)}`
  }
  if (failure !== undefined) {
    return `gets the failure that requests share: ${failure.status} ${failure.message}, for ${duration(failure.forMs)} more`
  }
  if (lease !== undefined) {
    return `waits for the process that fills the key; lease: ${leaseText(lease)}`
  }
  return undefined
}

/** The reason if nothing usable is stored. */
function absenceReason({ prefix, record, events, otherUrl }: Findings): string {
  if (otherUrl !== undefined) {
    return `is a miss, but a response for ${otherUrl} is stored: the app sees the other scheme, so set its trust-proxy option or ask for that URL`
  }
  for (const event of events) {
    const reason = reasonOfEvent(event)
    if (reason !== undefined) return `is a miss: ${reason} ${duration(Date.now() - event.at)} ago`
  }
  if (record.info !== undefined) {
    return 'is a miss: it was requested, but its last response was not kept; read `detail` in its Cache-Status'
  }
  return `is a miss: nothing is stored under its key, and no process reported an outcome; if it was requested, compare its host, scheme and query with the key, and \`--prefix\` (now ${prefix})`
}

function reasonOfEvent(event: ReportedEvent): string | undefined {
  switch (event.type) {
    case 'fill.passed':
      return `the last response was not stored (${event.fields.reason})`
    case 'fill.failed':
      return `the last run of the handler failed (${event.fields.failure ?? 'its process did not report the failure'})`
    case 'fill.fenced':
      return 'the store refused the last response, because of a purge or a newer lease,'
    case 'fill.abandoned':
      return 'the last run ended without a usable response'
    case 'entry.purged':
      return 'the key was purged'
    case 'fill.committed':
      return 'the last response has expired or was evicted; it was stored'
    default:
      return undefined
  }
}
