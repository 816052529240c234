// Exports of @stampede/operate: what tools for operators need, such as a dashboard.

export { entryFacts } from './entry-facts.ts'
export { observe } from './observer.ts'
export { type ProcessReport, readReport, reportEveryMs } from './report-form.ts'
export { isReported, reportedKey } from './reported-key.ts'
export { variantParts } from './variant-parts.ts'
