// The sentence that answers "why is this URL, or is it not, served from the cache?".

import { adviceOn } from '@stampede/core/operator'
import { reportedKey } from '@stampede/operate'
import { DESCRIBE } from './asked-key.ts'
import { duration } from './format.ts'
import { freshForMs, leaseText, purgeText, type RecordView } from './records.ts'
import type { ReportedEvent } from './reports.ts'
import { hasAny, type Variants, variantText } from './variants.ts'

export interface Findings {
  readonly url: string
  /** The prefix of the keys that were read. */
  readonly prefix: string
  readonly bypass: string | undefined
  readonly record: RecordView
  /** Other variants of the URL. Undefined if the record has an entry. */
  readonly variants: Variants | undefined
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
  if (bypass !== undefined) return `bypasses the cache and runs the handler: ${withFix(bypass)}`
  return entryReason(record) ?? recordReason(record, events) ?? absenceReason(findings)
}

/** The reason with its fix and the page about it. */
function withFix(reason: unknown): string {
  const advice = adviceOn(String(reason))
  return advice === undefined ? String(reason) : `${reason}; ${advice.fix}; see ${advice.page}`
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
    const reason = passed === undefined ? '' : ` (${withFix(passed.fields.reason)})`
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
function absenceReason({ prefix, record, variants, events, otherUrl }: Findings): string {
  if (variants !== undefined && hasAny(variants)) return variantReason(variants)
  if (otherUrl !== undefined) {
    return `is a miss, but a response for ${otherUrl} is stored: the app sees the other scheme, so set its trust-proxy option or ask for that URL`
  }
  for (const event of events) {
    const reason = reasonOfEvent(event, record)
    if (reason !== undefined) return `is a miss: ${reason} ${duration(Date.now() - event.at)} ago`
  }
  if (record.info?.variants) {
    return `is a miss as described: responses were stored for other variants of this URL (Vary, cookies, identity or a proxy field); ${describe}`
  }
  if (record.info !== undefined) {
    return 'is a miss: it was requested, but its last response was not kept; read `detail` in its Cache-Status'
  }
  return `is a miss: nothing is stored under its key, and no process reported an outcome; if it was requested, compare its host, scheme and query with the key, and \`--prefix\` (now ${prefix}); for an app with the option key or query, add --key or --query`
}

function variantReason(variants: Variants): string {
  const { named, customKeys } = variants
  if (named.length === 0 && customKeys.length > 0) {
    return `is a miss as described, but the path has responses under the option key (${customKeys.slice(0, MOST_SHOWN).join('; ')}); ${describe}`
  }
  const shown = named.slice(0, MOST_SHOWN).map((each) => `${variantText(each)} (${each.state})`)
  const more = named.length - shown.length + variants.unnamed
  if (more > 0) shown.push(`${shown.length > 0 ? 'and ' : ''}${more} without a name in the reports`)
  return `is a miss as described, but its URL has variants: ${shown.join('; ')}; ${describe}`
}

const MOST_SHOWN = 5
const describe = DESCRIBE.replace('D', 'd')

/** Whether the event is about this key, not about another variant of its group. */
function isAbout({ id }: ReportedEvent, { key, info }: RecordView): boolean {
  return info?.variants !== true && [key, reportedKey(key, false).id].includes(id)
}

function reasonOfEvent(event: ReportedEvent, record: RecordView): string | undefined {
  switch (event.type) {
    case 'fill.passed':
      return `the last response was not stored (${withFix(event.fields.reason)})`
    case 'fill.failed':
      return `the last run of the handler failed (${event.fields.failure ?? 'its process did not report the failure'})`
    case 'fill.fenced':
      return 'the store refused the last response, because of a purge or a newer lease,'
    case 'fill.abandoned':
      return 'the last run ended without a usable response'
    case 'entry.purged':
      return 'the key was purged'
    case 'fill.committed':
      if (!isAbout(event, record)) return undefined
      return 'the last response has expired or was evicted; it was stored'
    default:
      return undefined
  }
}
