// Exports of @stampede/node-http, for applications.

export { stampedeFront } from './front.ts'
export { isRevalidation } from './revalidation.ts'
