// Exports of @stampede/core/operator: what tools for operators need, such as a dashboard.

export { type EntryFacts, entryFacts, type PurgeView } from './observe/entry-facts.ts'
export {
  type EventView,
  type FlightView,
  type Observer,
  observe,
  type ProcessSnapshot,
} from './observe/observer.ts'
export {
  type AskedRequest,
  namedKeys,
  type RequestKeys,
  requestKey,
} from './observe/request-key.ts'
export { shownKey } from './ports/shown-key.ts'
