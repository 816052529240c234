// The interface between core and the adapters for a request with an idempotency key.

import type {
  CapturedHead,
  HeaderList,
  OriginEnd,
  Reply,
  RequestBody,
  RequestView,
} from './exchange.ts'

/** How a run of the handler ended. */
export type AttemptEnd =
  /** The whole response body was captured. */
  | Extract<OriginEnd, { type: 'complete' }>
  /**
   * The handler responded, but its body was not captured. The body was too large, cut off, or
   * written to the socket without the response object.
   */
  | { readonly type: 'not-retained'; readonly head: CapturedHead }
  /** The handler threw, and no error handler sent a response. */
  | { readonly type: 'failed'; readonly error: unknown }
  /** The handler did not respond in time. It may still run. */
  | { readonly type: 'unanswered' }

/** Gets the response of a handler under an idempotency key, from the adapter. */
export interface AttemptObserver {
  /**
   * Whether no byte of the response may be sent before the promise of `onEnd` resolves. The adapter
   * then keeps head and body in memory.
   */
  readonly holdsAll: boolean
  /**
   * A larger body goes to the client and is not stored. With `holdsAll`, it ends the run as
   * `not-retained`.
   */
  readonly maxBodyBytes: number
  /** How long the handler may still take to respond after its client left. */
  readonly graceMs: number
  /**
   * Called exactly once. If it returns a promise, the adapter delays the end of the response until
   * the promise resolves. The promise resolves in bounded time and never rejects. If the adapter
   * already knows that the body will not be stored, it does not delay the end. With `holdsAll`, it
   * always delays. Then a `Reply` replaces the response of the handler. Otherwise there is none.
   */
  onEnd(end: AttemptEnd): Promise<Reply | undefined> | undefined
}

/** A request with its response, as an adapter gives it to `createHttpIdempotency`. */
export interface IdempotentExchange<Native = unknown> {
  readonly request: RequestView
  readonly native: Native
  /** The lines of a request field as received, one string per line. */
  lines(name: string): readonly string[]
  /** Whether a middleware before idempotency() set this response field. */
  isSet(name: string): boolean
  /** Reads the body and leaves it readable for the handler. Never rejects. */
  readBody(maxBytes: number): RequestBody | Promise<RequestBody>
  /** Forwards the request to the handler unchanged. The response gets the fields of `add`. */
  forward(add: HeaderList): void | Promise<void>
  /**
   * Runs the handler with this client's own response. An error of the handler still reaches the
   * framework.
   */
  run(observer: AttemptObserver): void | Promise<void>
  /** Sends the response. Nothing was sent to this client before. */
  send(reply: Reply): void
}
