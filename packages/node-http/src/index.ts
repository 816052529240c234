// Exports of @stampede/node-http, for applications.

export { stampedeFront } from './front.ts'
export { idempotentFront } from './idempotent-front.ts'
export { isRevalidation } from './revalidation.ts'
