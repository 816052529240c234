// Exports of @stampede/node-http, for applications.

export { idempotentFront, stampedeFront } from './front.ts'
export { isRevalidation } from './revalidation.ts'
