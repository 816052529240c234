// Exports of @stampede/core/operator: what tools for operators need, such as a dashboard.

export { type EntryFacts, entryFacts, type PurgeView } from './observe/entry-facts.ts'
export {
  type AskedRequest,
  namedKeys,
  type RequestKeys,
  requestKey,
} from './observe/request-key.ts'
