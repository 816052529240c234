// Exports of @stampede/node-http, for applications.

export { type Listener, stampedeFront } from './front.ts'
export { isRevalidation } from './revalidation.ts'
