// The interface between core and the adapters: one request and its response.

import type { AsyncResource } from 'node:async_hooks'

/** Header fields in order, with lower-case names. A repeated field is a repeated pair. */
export type HeaderList = ReadonlyArray<readonly [name: string, value: string]>

/** The response field with directives for this cache only (RFC 9213). */
export const OWN_FIELD = 'stampede-cache-control'

/**
 * `OWN_FIELD` and the two response fields that hold purge tags. Adapters remove them from each
 * response to a client, also from a response that core has not seen.
 */
export const OWN_FIELDS: readonly string[] = [OWN_FIELD, 'surrogate-key', 'cache-tag']

/** Request and response objects of the framework. Callbacks in the user's options get them. */
export type Natives = readonly [request: unknown, response: unknown]

/**
 * Type of the body that the handler gave its framework: a value sent as JSON, a string, a stream,
 * `null` for an empty body, or none, for which the framework sends the text of the status. The type
 * is recorded because middlewares around the handler can see it. Undefined: bytes, or unknown.
 */
export type BodyKind = 'json' | 'string' | 'stream' | 'null' | 'status'

/** Status and header fields of a response as its handler set them. */
export interface CapturedHead {
  readonly status: number
  readonly headers: HeaderList
}

/** The request body, as far as the adapter can read it. */
export type RequestBody =
  | { readonly type: 'none' }
  /** The bytes as the client sent them. */
  | { readonly type: 'bytes'; readonly bytes: Uint8Array }
  /** The value that a body parser produced before. */
  | { readonly type: 'parsed'; readonly value: unknown }
  | { readonly type: 'too-large' }
  /** Other code read the body before, and left neither bytes nor a parsed value. */
  | { readonly type: 'unseen' }
  /** The client left before the whole body arrived. */
  | { readonly type: 'incomplete' }

/** The body of a QUERY (RFC 10008), with its digest for the key. */
export interface QueryContent {
  readonly digest: string
  readonly body: RequestBody
}

/**
 * The parts of a request that core reads. Header names are lower-case, values as Node joins them.
 */
export interface RequestView {
  readonly method: string
  /** `http` or `https`, as determined by the framework and its trust-proxy setting. */
  readonly scheme: string
  /** Authority with its port, as determined by the framework and its trust-proxy setting. */
  readonly host: string
  /** Path and query as received, before a mounted router changed them. */
  readonly target: string
  /**
   * The target that a middleware before the cache has set in place of the received one. This target
   * is part of the key, because the middleware may have chosen it by request fields that the key
   * does not have.
   */
  readonly rewritten?: string | undefined
  /**
   * Text for the reason why the framework chose this handler of the target: the constraints of a
   * route in Fastify, the version of a handler in Nest. Undefined: the target alone decides.
   */
  readonly chosenBy?: string | undefined
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /**
   * Set if `headers` lacks lines that the client sent and the handler may see: Node cut off the end
   * of the head, or dropped a line of a repeated field.
   */
  readonly lostLines?: 'cut-head' | 'repeated-field' | undefined
  /** Over HTTP/2: whether a body follows the head. Undefined: the header fields show it. */
  readonly hasBody?: boolean | undefined
  /** Whether the client sent a TLS certificate, valid or not. */
  readonly hasClientCertificate?: boolean | undefined
  /**
   * Whether this request, or an earlier one on its connection, logged in the whole connection
   * (NTLM, Negotiate).
   */
  readonly hasLogin?: boolean | undefined
  /**
   * Server name that the client sent in the TLS handshake (SNI, RFC 6066 §3). Empty: the client
   * sent none. Undefined: no TLS.
   */
  readonly servername?: string | undefined
  /** Set by the cache of a QUERY, when it has read the body. */
  content?: QueryContent | undefined
}

/** How the adapter must handle a response, decided by core when the handler sends the head. */
export type HeadDecision =
  /**
   * Send the response to the client without the fields named in `remove` (lower-case), and with the
   * fields of `add`. `capture`: also collect the body for core.
   */
  | {
      readonly action: 'send'
      readonly capture: boolean
      readonly add: HeaderList
      readonly remove: readonly string[]
      /** 304, 416 or 206 for this client instead of the 200. `capture` still refers to the 200. */
      readonly instead?: Reply | PartOfBody | undefined
    }
  /** Discard the response and send `reply`: stale-if-error, or the entry that a 304 confirmed. */
  | { readonly action: 'replace'; readonly reply: Reply }

/** A 206, cut from the body while the handler writes it (RFC 9110 §15.3.7). */
export interface PartOfBody {
  readonly status: 206
  /** Offset of the first byte of the part. */
  readonly start: number
  /** Offset of the byte after the last one. */
  readonly end: number
  /**
   * Fields that replace the fields of the same names in the head of the 200. The fields of `add`
   * are sent too.
   */
  readonly fields: HeaderList
}

/** Called with the head of a response that core does not capture. */
export type HeadWatch = (head: CapturedHead, natives?: Natives) => void

/** A second cache on the path of one request, nearer to the handler than the first. */
export interface InnerCache {
  /** The inner cache's key for the request as the outer cache sees it. */
  keyOf(request: RequestView): string
  /** The inner cache's validated options. Its callbacks get `natives`. */
  readonly config: object
  readonly natives: Natives
}

/**
 * Called when the request reaches an inner cache, before the head. If it returns undefined, the
 * inner cache forwards the request to the handler. If it returns fields, the inner cache handles
 * the request, and the fields are added to the response. The outer cache shares that response with
 * no other client.
 */
export type OnInner = (inner: InnerCache) => HeaderList | undefined

/** Callbacks for a run of the handler whose response core does not capture. None of them throws. */
export interface RunWatch {
  /** Called once, before the head is sent or when the client left. */
  readonly onHead?: HeadWatch | undefined
  /** Set if this cache looked up the key of the request. */
  readonly onInner?: OnInner | undefined
  /** Called once, when the response ended or the client left. */
  readonly onEnd?: (() => void) | undefined
}

/** Gets the response of a handler, part by part, from the adapter. */
export interface OriginObserver {
  onInner?(inner: InnerCache): HeaderList | undefined
  /**
   * Called once, before the head is sent. Never throws. `whole` is the body, if all of it is known
   * by then. These bytes may change as soon as this call returns. `natives` belong to the run that
   * sends this response, which may be a background run.
   */
  onHead(head: CapturedHead, whole?: Uint8Array, natives?: Natives): HeadDecision
  /**
   * Conditional fields that the handler sees in the request, instead of those of the client.
   * Middlewares before the cache do not see them. `onHead` replaces the handler's 304.
   */
  readonly conditions?: HeaderList | undefined
  /** A larger body goes to the client and is not stored. */
  readonly maxBodyBytes: number
  /**
   * Called once, when the response ended or the client left. This may be after `ended`.
   */
  readonly onEnd?: (() => void) | undefined
  /**
   * Called when it is known how the run ended, in a later turn than the call that began the run.
   * Only the first call counts. Never throws, and may be called without `this`.
   */
  readonly ended: (end: OriginEnd) => void
}

/** How a run of the handler ended. */
export type OriginEnd =
  /** The whole body was captured, and its length equals its Content-Length. */
  | {
      readonly type: 'complete'
      readonly head: CapturedHead
      readonly body: Uint8Array
      readonly kind?: BodyKind | undefined
    }
  /**
   * `onHead` replaced the response, and the reply was sent without a Set-Cookie. `head` is that of
   * the handler.
   */
  | { readonly type: 'replaced'; readonly head: CapturedHead }
  /**
   * The handler responded, but the body was not captured. Reasons: `capture: false`, too large, cut
   * off, or written to the socket without the response object.
   */
  | {
      readonly type: 'not-captured'
      readonly reason: 'declined' | 'too-large' | 'incomplete' | 'detached'
    }
  /** The handler threw. `status` is the one that the framework will send. */
  | { readonly type: 'failed'; readonly status: number; readonly error: unknown }

/** A complete response from core: a hit, a byte range of a hit, a 304, or a shared failure. */
export interface Reply {
  readonly status: number
  readonly headers: HeaderList
  readonly body: Uint8Array | undefined
  /**
   * The names and values of `headers` in turn, if the response can be sent without further checks:
   * each field is valid, and Content-Length is one of them, except for a 204.
   */
  readonly fields?: readonly string[]
  /**
   * Kind of a whole stored body. Check the bytes before use, because they come from a shared store
   * and may be of another kind.
   */
  readonly kind?: BodyKind | undefined
  /**
   * Whether the body is a byte range. A middleware must not compress a range, so adapters add
   * `no-transform` to its Cache-Control.
   */
  readonly part?: true
}

/** Facts of a framework about a request that has run a handler. Not read for a hit. */
export interface Framework<Native = unknown> {
  /**
   * Whether the framework's settings allow an ETag that the handler did not set. Absent: they do.
   */
  readonly allowsEtag?: ((native: Native) => boolean) | undefined
  /**
   * The pattern of the route that handles the request, such as `/products/:id`, for counters and
   * metrics. Undefined: the framework has not chosen a route yet, or has no routes.
   */
  readonly routeOf?: ((native: Native) => string | undefined) | undefined
  /**
   * The beginning of the path under which the middleware is mounted, such as `/api`. Absent or
   * empty: it is mounted for the whole app.
   */
  readonly mountOf?: ((native: Native) => string) | undefined
  /** The methods that its server can parse. Absent: all. */
  readonly methods?: readonly string[] | undefined
}

/** One request and its response. `Native` is an Express request or a Koa context, for callbacks. */
export interface Exchange<Native = unknown> {
  readonly request: RequestView
  readonly native: Native
  /**
   * Whether the client left. For a request that runs the handler, this stays false if the client
   * leaves after the end of the response.
   */
  isGone?(): boolean
  /** Reads the body of a QUERY, and leaves it readable for the handler. Never rejects. */
  readBody?(maxBytes: number): RequestBody | Promise<RequestBody>
  /**
   * Forwards the request to the handler unchanged. The response gets the fields of `add` and loses
   * `OWN_FIELDS`.
   */
  forward(add: HeaderList, watch?: RunWatch): void | Promise<void>
  /**
   * Runs the handler with this client's own response, and captures what the handler writes. The
   * handler does not see the client's conditional and range fields. An error of the handler still
   * reaches the framework.
   */
  runOrigin(observer: OriginObserver): void
  /**
   * Makes the current asynchronous context that of a later `runOrigin` or `redispatch`. Called in
   * that of the request, unless `send` or `forward` is the first call. Later calls may come from
   * other asynchronous contexts. Returns the captured context.
   */
  captureContext?(): AsyncResource
  /** Sends the response. Nothing was sent to this client before. */
  send(reply: Reply): void
  /**
   * Runs the same request through the whole app again, on a request and response without a client.
   * A QUERY has the body in `request.content`.
   * `observer` sees the response that leaves this middleware. If the run does not reach this
   * middleware, the end is `failed`.
   */
  redispatch(observer: OriginObserver): void
}
