// Exports of @stampede/core/operator: keys for operators, and what @stampede/operate reads.

export { adviceOn } from './cache/first-requests.ts'
export { codecOf, decodeFrame } from './entry/frame.ts'
export { shownKey } from './ports/key.ts'
export { kindOf } from './ports/subject.ts'
export { ratiosOf, usageOf } from './ratios.ts'
export { namedKeys, requestKey } from './request-key.ts'
export { runtimeOf } from './stampede.ts'
