// Exports of @stampede/node-http/adapter: capture, replies and background requests on node:http.

export { MountOrder } from './mount-order.ts'
export { createNodeCache, RequestExchange } from './node-exchange.ts'
export { AttemptExchange, createNodeIdempotency } from './node-idempotency.ts'
export { rememberRawBody } from './request/body.ts'
export { Departure } from './request/client-gone.ts'
export { expressHost, trustsPeer } from './request/read-request.ts'
export { endWith, teeStream } from './response/body.ts'
export { Capture } from './response/capture.ts'
export { exposeReply } from './response/fastify-reply.ts'
export {
  editFields,
  fieldsOf,
  OuterFields,
  restoreFields,
} from './response/fields.ts'
export { SentHead } from './response/head.ts'
export { AttemptWatch } from './response/hold-end.ts'
export { isWrapped, watchCalls } from './response/original-methods.ts'
export { breakOff, isSendable, setReply } from './response/write-response.ts'
export { visitWeb } from './web/web-visit.ts'
