// One request and its response, as core sees them. The adapters implement it; core decides.

/** Header fields in order, names lower-case; repeated names are repeated pairs. */
export type HeaderList = ReadonlyArray<readonly [name: string, value: string]>

/** What a handler says to this cache alone (RFC 9213). */
export const OWN_FIELD = 'stampede-cache-control'

/**
 * It, and the tags of a response in the two spellings there are. Adapters take them off every response to a client, also off one
 * that core has not seen.
 */
export const OWN_FIELDS: readonly string[] = [OWN_FIELD, 'surrogate-key', 'cache-tag']

/** Request and response as the framework calls them: what the user's own callbacks are given. */
export type Natives = readonly [request: unknown, response: unknown]

/**
 * Type of the body that the handler gave its framework, where layers in front can see it: a value
 * sent as JSON, a string, or a stream. Undefined: bytes, or not known.
 */
export type BodyKind = 'json' | 'string' | 'stream'

/** Status and headers of a response as its handler made them. */
export interface CapturedHead {
  readonly status: number
  readonly headers: HeaderList
}

/** What core reads of a request. Header names are lower-case, values as Node joins them. */
export interface RequestView {
  readonly method: string
  /** `http` or `https`, as the framework (and its trust-proxy setting) sees it. */
  readonly scheme: string
  /** Authority as the framework (and its trust-proxy setting) sees it, port included. */
  readonly host: string
  /** Path and query as received, before any mounting changed them. */
  readonly target: string
  /** Where middlewares in front of the cache have sent it instead; what they went by may be in no key. */
  readonly rewritten?: string | undefined
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Over HTTP/2: whether a body follows the head. Undefined: the fields tell. */
  readonly hasBody?: boolean | undefined
  /** The client sent a TLS certificate, valid or not. */
  readonly hasClientCertificate?: boolean | undefined
  /** This request or an earlier one logged in the whole connection (NTLM, Negotiate). */
  readonly hasLogin?: boolean | undefined
  /**
   * Server name that the client sent in the TLS handshake (SNI, RFC 6066 §3). Empty: it sent none.
   * Undefined: no TLS.
   */
  readonly servername?: string | undefined
}

/** What core wants done with a response whose head was just seen. */
export type HeadDecision =
  /**
   * Let it go to the client without the fields named in `remove` (lower-case), and with `add` on top of the others;
   * `capture` says whether to keep its body.
   */
  | {
      readonly action: 'send'
      readonly capture: boolean
      readonly add: HeaderList
      readonly remove: readonly string[]
      /** 304, 416 or 206 for this client in place of the 200. `capture` still holds for the 200. */
      readonly instead?: Reply | PartOfBody | undefined
    }
  /** Discard it, and answer with this instead: stale-if-error, or what a 304 stands for. */
  | { readonly action: 'replace'; readonly reply: Reply }

/** A 206, cut from the body while it arrives (RFC 9110 §15.3.7). */
export interface PartOfBody {
  readonly status: 206
  /** First byte of the part. `end` is the byte after the last one. */
  readonly start: number
  readonly end: number
  /** Replace the fields of the same names in the head of the 200. Sent besides `add`. */
  readonly fields: HeaderList
}

/** Told of a head in whose making core has no part. */
export type HeadWatch = (head: CapturedHead, natives?: Natives) => void

/** A cache in the app, come upon while another one further out runs the app for the same request. */
export interface InnerCache {
  /** The key that it has for this request, as the outer one sees it. */
  keyOf(request: RequestView): string
  /** Its options, as core has read them, and what its callbacks are given. */
  readonly config: object
  readonly natives: Natives
}

/**
 * Told of an inner cache, before the head. Undefined: it is to let the request pass. Else it takes it on as if nobody had before: this run is
 * its client's alone from then on, and the fields are put on top of the response's.
 */
export type OnInner = (inner: InnerCache) => HeaderList | undefined

/** Where an adapter shows a body it captures, as it comes. */
export interface LiveSink {
  /** The head has left, and with nothing on it that is one client's: what follows may be shown. Once, before any chunk. */
  open(head: CapturedHead): void
  /** Somebody reads it now. */
  readonly watched: boolean
  /** A chunk that nobody will change. False: nobody reads, and beyond `maxBodyBytes` nobody will; no more need come. */
  write(chunk: Uint8Array): boolean
  /** Nothing follows. `whole`: the app ended it; otherwise those who read are cut off. */
  end(whole: boolean): void
}

/** Told of a run in which core has no part. None of them ever throws. */
export interface RunWatch {
  /** Once, before the head leaves or when its client is gone. */
  readonly onHead?: HeadWatch | undefined
  /** For a request that was looked up. */
  readonly onInner?: OnInner | undefined
  /** Once the response has ended, or its client has left. */
  readonly onEnd?: (() => void) | undefined
}

export interface OriginObserver {
  readonly onInner?: OnInner
  /**
   * Called once, before the head leaves; never throws. `whole` is the body, where all of it is at hand by then; it may
   * change as soon as this returns. `natives` are of the run that makes this response, be it behind an answer already given.
   */
  onHead(head: CapturedHead, whole?: Uint8Array, natives?: Natives): HeadDecision
  /**
   * What the app, and nobody further out, sees as the request's conditions, in place of the client's own. A 304 that it answers
   * with is replaced by `onHead`, however it is written.
   */
  readonly conditions?: HeaderList | undefined
  /** Bodies above this go to the client and are not kept. */
  readonly maxBodyBytes: number
  /** Once the response has ended, or its client has left; perhaps after the run's own outcome. */
  readonly onEnd?: (() => void) | undefined
  /** Where the body is shown while it is captured, and beyond `maxBodyBytes` as long as somebody reads. */
  readonly live?: LiveSink | undefined
}

/** How a run of the origin ended. */
export type OriginEnd =
  /** The whole body was seen, and it is as long as its Content-Length said. */
  | {
      readonly type: 'complete'
      readonly head: CapturedHead
      readonly body: Uint8Array
      readonly kind?: BodyKind | undefined
    }
  /** `onHead` answered with something else, which has left without a Set-Cookie; `head` is what the app had said. */
  | { readonly type: 'replaced'; readonly head: CapturedHead }
  /** Answered, but the body was not kept: `capture: false`, too large, cut off, written around us. */
  | {
      readonly type: 'not-captured'
      readonly reason: 'declined' | 'too-large' | 'incomplete' | 'detached'
    }
  /** It threw; `status` is what the framework will answer with. */
  | { readonly type: 'failed'; readonly status: number; readonly error: unknown }

/** A complete answer written by core: a hit, a part of it, a 304, a shared failure. */
export interface Reply {
  readonly status: number
  readonly headers: HeaderList
  readonly body: Uint8Array | undefined
  /** Kind of a whole stored body. Bytes from a shared store may not be of that kind: check them. */
  readonly kind?: BodyKind | undefined
  /**
   * The body is a part, cut from a whole as it is: what lies further out must not code it anew, so `no-transform` goes into
   * its Cache-Control, whoever made that.
   */
  readonly part?: true
}

/** An answer of which the body is still coming. */
export interface LiveReply {
  readonly status: number
  /** Without framing. */
  readonly headers: HeaderList
  /** The Content-Length, where it is known. */
  readonly length: number | undefined
  /** Throws when the body was cut off: then the client must see a broken transfer. `return` when the client left. */
  readonly body: LiveChunks
}

export interface LiveChunks {
  next(): Promise<IteratorResult<Uint8Array, undefined>>
  return(): unknown
}

/** A stored answer as it is. Every field is valid. */
export interface ReadyReply {
  readonly type: 'ready'
  readonly status: number
  /** Name, value, name, value; Content-Length among them. */
  readonly fields: readonly string[]
  readonly body: Uint8Array
  /** As in Reply. */
  readonly kind?: BodyKind | undefined
}

/** What was read of a request since `watchReads`. Names of headers are lower-case. */
export interface ReadLog {
  readonly headers: ReadonlySet<string>
  readonly cookies: ReadonlySet<string>
  readonly query: ReadonlySet<string>
}

/** `Native` is what the user's own callbacks are given: an Express request, a Koa context. */
export interface Exchange<Native = unknown> {
  readonly request: RequestView
  readonly native: Native
  /**
   * Whether the client left. If its request runs the handler: whether it left before the response
   * ended.
   */
  isGone?(): boolean
  /**
   * Hands the request to the app untouched, `add` on top of the response's headers, `OWN_FIELDS` off them.
   */
  bypass(add: HeaderList, watch?: RunWatch): void | Promise<void>
  /**
   * Runs the app on this client's own response, teeing what it writes; the client's conditional and range headers
   * are hidden from it. Never rejects. An error of the app still reaches the framework.
   */
  runOrigin(observer: OriginObserver): Promise<OriginEnd>
  /**
   * Whether the app's settings allow an ETag that its handler did not set. Called for a run that is
   * stored, never on a hit, with the request of that run. Absent: they do.
   */
  allowsEtag?(native: Native): boolean
  /**
   * Called once, in the context of the request, unless `sendReady` or `bypass` is the first call: the methods that
   * follow may be called from other asynchronous contexts.
   */
  prepare?(): void
  /** For `audit`: from now on remembers what the app reads of the request. */
  watchReads?(): ReadLog
  /** Answers the client; nothing was sent before. Returns what the adapter must return. */
  send(reply: Reply): void
  /** As `send`, of a stored answer as it is: faster. Where it is absent, that is sent as any other. */
  sendReady?(ready: ReadyReply): void
  /** As `send`, with a body that is still coming. Absent where a broken transfer would look like a whole one. */
  sendLive?: ((reply: LiveReply) => void) | undefined
  /**
   * Runs the same request through the whole app again on a detached request and response, and observes
   * it where it comes back into this middleware. `failed` if it never got there. Never rejects.
   */
  redispatch(observer: OriginObserver): Promise<OriginEnd>
}
