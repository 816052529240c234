// @stampede/node-http: what the framework adapters share. Applications need stampedeFront and isRevalidation.

export { strict } from '@stampede/core'
export { type AttemptWatch, watchAttempt } from './attempt-watch.ts'
export type { Tee, TeeEnd } from './body.ts'
export { createBodyCollector, teeStream } from './body.ts'
export { BodyCut, cutStream } from './body-cut.ts'
export { captureResponse, guardNotModified } from './capture-response.ts'
export { hasLeft, watchLeft } from './client-gone.ts'
export { createDetachedPair, type DetachedPair } from './detached-exchange.ts'
export { type Listener, stampedeFront } from './front.ts'
export { type HeadSent, headSent, setsCookie } from './head-sent.ts'
export {
  applyFields,
  type FieldMap,
  fieldsOf,
  forbidTransform,
  groupFields,
  missingDate,
  restoreFields,
  storedHead,
  toHeaderList,
} from './header-fields.ts'
export { hideConditionals } from './hide-conditionals.ts'
export { withNatives } from './judge-head.ts'
export { LiveFeed } from './live-feed.ts'
export { canBreakOff, liveHeaders, liveStream } from './live-stream.ts'
export { createNodeCache, type NodeVisit } from './node-exchange.ts'
export {
  createNodeIdempotency,
  type IdempotentVisit,
  linesOf,
  unsendable,
} from './node-idempotency.ts'
export { enterOrigin, isInsideOrigin, isTakenOn } from './origin-scope.ts'
export type { ParsedRequest } from './parsed-body.ts'
export { shield } from './read-on.ts'
export { type RequestAddress, readRequest, rememberPeer } from './read-request.ts'
export { discardRequestBody, readRequestBody, rememberRawBody } from './request-body.ts'
export {
  type Dispatch,
  isRevalidation,
  type Revalidation,
  redispatch,
  takeRevalidation,
} from './revalidation.ts'
export { watchHead } from './watch-head.ts'
export { watchReads } from './watch-reads.ts'
export { addAtHead } from './write-head.ts'
export {
  framedHeaders,
  hasBody,
  hasRepeats,
  isSendable,
  isWrapped,
  replyOf,
  writeReady,
  writeReply,
} from './write-response.ts'
