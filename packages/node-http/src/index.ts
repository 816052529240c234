// @stampede/node-http: what the framework adapters share. Applications need only isRevalidation.

export { type AttemptWatch, watchAttempt } from './attempt-watch.ts'
export type { Tee, TeeEnd } from './body.ts'
export { createBodyCollector, teeStream } from './body.ts'
export { captureResponse } from './capture-response.ts'
export { createDetachedPair, type DetachedPair } from './detached-exchange.ts'
export { type HeadSent, headSent, setsCookie } from './head-sent.ts'
export {
  applyFields,
  type FieldMap,
  fieldsOf,
  restoreFields,
  storedHead,
  toHeaderList,
} from './header-fields.ts'
export { hideConditionals } from './hide-conditionals.ts'
export { createNodeCache, type NodeVisit } from './node-exchange.ts'
export {
  createNodeIdempotency,
  type IdempotentVisit,
  linesOf,
  unsendable,
} from './node-idempotency.ts'
export { enterOrigin, isInsideOrigin } from './origin-scope.ts'
export { type RequestAddress, readRequest } from './read-request.ts'
export {
  discardRequestBody,
  type ParsedRequest,
  readRequestBody,
  rememberRawBody,
} from './request-body.ts'
export {
  type Dispatch,
  isRevalidation,
  type Revalidation,
  redispatch,
  takeRevalidation,
} from './revalidation.ts'
export { addAtHead } from './write-head.ts'
export { framedHeaders, hasBody, isSendable, writeReply } from './write-response.ts'
