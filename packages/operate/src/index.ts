// Exports of @stampede/operate: what tools for operators need, such as a dashboard.

export { type EntryFacts, entryFacts, type PurgeView } from './entry-facts.ts'
export { type Observer, type ObserverOptions, observe } from './observer.ts'
export { ratiosOf, runsOn, type Usage } from './ratios.ts'
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
  reportEveryMs,
} from './report-form.ts'
export { isReported, type ReportedId, reportedKey } from './reported-key.ts'
