// Exports of @stampede/node-http/adapter: capture, replies and background requests on node:http.

export { type Layer, MountOrder } from './mount-order.ts'
export {
  createNodeCache,
  type NodeFramework,
  type NodeVisit,
  RequestExchange,
  type RequestVisit,
} from './node-exchange.ts'
export { createNodeIdempotency, type IdempotentVisit, unsendable } from './node-idempotency.ts'
export { endsInTime, hasLeft, watchLeft } from './request/client-gone.ts'
export { hideConditionals } from './request/hide-conditionals.ts'
export { linesOf } from './request/lost-lines.ts'
export type { ParsedRequest } from './request/parsed-body.ts'
export { expressHost, trustsPeer } from './request/proxy-trust.ts'
export { type RequestAddress, readRequest, rememberPeer } from './request/read-request.ts'
export { discardRequestBody, readRequestBody, rememberRawBody } from './request/request-body.ts'
export { type Reads, watchReads } from './request/watch-reads.ts'
export { type AttemptWatch, watchAttempt } from './response/attempt-watch.ts'
export type { Tee, TeeEnd } from './response/body.ts'
export { teeStream } from './response/body.ts'
export { BodyCut, cutStream } from './response/body-cut.ts'
export { captureResponse, guardNotModified } from './response/capture-response.ts'
export { exposeFields, watchReply } from './response/expose-fields.ts'
export { onHeadSent, setsCookie } from './response/head-sent.ts'
export {
  applyFields,
  fieldsOf,
  forbidTransform,
  missingDate,
  restoreFields,
} from './response/header-fields.ts'
export { correctStored } from './response/late-cookie.ts'
export { OuterFields, storedHead } from './response/outer-fields.ts'
export { watchCalls } from './response/watch-calls.ts'
export { watchHead } from './response/watch-head.ts'
export { addAtHead } from './response/write-head.ts'
export {
  framedHeaders,
  hasBody,
  hasRepeats,
  isSendable,
  isWrapped,
  replyOf,
  writeReady,
  writeReply,
} from './response/write-response.ts'
export { createDetachedPair, type DetachedPair } from './revalidation/detached-exchange.ts'
export { enterOrigin, isInsideOrigin, isTakenOn } from './revalidation/origin-scope.ts'
export {
  type Dispatch,
  type Revalidation,
  redispatch,
  takeRevalidation,
} from './revalidation/revalidation.ts'
export { readForm, readWebBody } from './web/web-body.ts'
export { serverOf, visitWeb, type WebRequest, type WebVisit } from './web/web-visit.ts'
