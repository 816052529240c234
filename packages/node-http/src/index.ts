// Public door: what applications import from @stampede/node-http.

export { type Listener, stampedeFront } from './front.ts'
export { isRevalidation } from './revalidation/revalidation.ts'
