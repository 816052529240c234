// Exports of @stampede/core/operator: what tools for operators need, such as a dashboard.

export { patternNote } from './http/route-pattern.ts'
export { type EntryFacts, entryFacts, type PurgeView } from './observe/entry-facts.ts'
export { type Observer, type ObserverOptions, observe } from './observe/observer.ts'
export { ratiosOf, runsOn, type Usage } from './observe/ratios.ts'
export {
  type LastFill,
  type ProcessReport,
  type ReportAdditions,
  type ReportedEvent,
  type ReportedFlight,
  type ReportedKey,
  type ReportedLock,
  type ReportedStats,
  type ReportedStore,
  readReport,
} from './observe/report-form.ts'
export { isReported, type ReportedId, reportedKey } from './observe/reported-key.ts'
export {
  type AskedRequest,
  namedKeys,
  type RequestKeys,
  requestKey,
} from './observe/request-key.ts'
export { shownKey, variantParts } from './ports/shown-key.ts'
