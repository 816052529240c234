// Exports of @stampede/core/operator: keys for operators, and what @stampede/operate reads.

export { adviceOn } from './cache/first-requests.ts'
export { shownKey } from './ports/key.ts'
export { ratiosOf, usageOf } from './ratios.ts'
export { inspectFrame, namedKeys, requestKey } from './request-key.ts'
export { runtimeOf } from './stampede.ts'
