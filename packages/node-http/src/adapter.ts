// Exports of @stampede/node-http/adapter: capture, replies and background requests on node:http.

export { type Layer, MountOrder } from './mount-order.ts'
export {
  createNodeCache,
  type NodeFramework,
  type NodeVisit,
  RequestExchange,
  type RequestVisit,
} from './node-exchange.ts'
export {
  AttemptWatch,
  createNodeIdempotency,
  unsendable,
} from './node-idempotency.ts'
export {
  discardRequestBody,
  readRequestBody,
  rememberRawBody,
} from './request/body.ts'
export { ANSWER_WITHIN_MS, hasLeft } from './request/client-gone.ts'
export { hideConditionals } from './request/conditionals.ts'
export {
  expressHost,
  linesOf,
  type RequestAddress,
  readRequest,
  trustsPeer,
} from './request/read-request.ts'
export { watchReads } from './request/watch-reads.ts'
export { BodyCut, cutStream, declaredLength, hasBody, teeStream } from './response/body.ts'
export { Capture } from './response/capture.ts'
export {
  applyFields,
  editWriteHead,
  fieldsOf,
  forbidTransform,
  missingDate,
  restoreFields,
} from './response/fields.ts'
export {
  addAtHead,
  correctStored,
  setsCookie,
  watchCalls,
  watchHead,
} from './response/head.ts'
export { exposeReply, OuterFields } from './response/outer-fields.ts'
export {
  breakOff,
  framedHeaders,
  hasRepeats,
  isSendable,
  isWrapped,
  nodesWriteHead,
  replyOf,
} from './response/write-response.ts'
export {
  type Dispatch,
  enterOrigin,
  isInsideOrigin,
  isTakenOn,
  takeRevalidation,
} from './revalidation.ts'
export {
  readWebBody,
  visitWeb,
  type WebVisit,
} from './web/web-visit.ts'
