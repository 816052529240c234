// A request with an idempotency key and its response, as core sees them. The adapters implement it; core decides.

import type { CapturedHead, HeaderList, Reply, RequestView } from './exchange.ts'

/** What could be seen of a request's body. */
export type RequestBody =
  | { readonly type: 'none' }
  /** As it was sent, before any parser. */
  | { readonly type: 'bytes'; readonly bytes: Uint8Array }
  /** What a parser that ran before made of it. */
  | { readonly type: 'parsed'; readonly value: unknown }
  | { readonly type: 'too-large' }
  /** There was one, and whoever read it left nothing to see. */
  | { readonly type: 'unseen' }
  /** The client left before all of it had come. */
  | { readonly type: 'incomplete' }

/** How a run of the handler ended. */
export type AttemptEnd =
  /** The whole body was seen. */
  | { readonly type: 'answered'; readonly head: CapturedHead; readonly body: Uint8Array }
  /** It began to answer, but the body was too large, cut off, or written around us. */
  | { readonly type: 'not-retained'; readonly head: CapturedHead }
  /** It threw, and nobody made an answer of that. */
  | { readonly type: 'failed'; readonly error: unknown }
  /** Nothing was heard of it: it may be at work still, or never answer. */
  | { readonly type: 'unanswered' }

export interface AttemptObserver {
  /** Bodies above this go to the client and are not kept. */
  readonly maxBodyBytes: number
  /** How long a handler may take to answer after its client left. */
  readonly patienceMs: number
  /**
   * Called exactly once. The end of the response leaves when the promise resolves, which it does in bounded time; it never
   * rejects. Without a promise it leaves at once. (Where the body is known not to be kept before its end, the response is not held.)
   */
  onEnd(end: AttemptEnd): void | Promise<void>
}

export interface IdempotentExchange<Native = unknown> {
  readonly request: RequestView
  readonly native: Native
  /** Every line of a request field as received, one string a line. */
  lines(name: string): readonly string[]
  /** Whether middlewares around us have set this field of the response. Needs no `this`. */
  isSet(name: string): boolean
  /** Leaves the body for the handler to read. Never rejects. */
  readBody(maxBytes: number): RequestBody | Promise<RequestBody>
  /** Hands the request to the app untouched, `add` on top of the response's headers. */
  bypass(add: HeaderList): void | Promise<void>
  /** Runs the app on this client's own response. Never rejects; an error of the app still reaches the framework. */
  run(observer: AttemptObserver): void | Promise<void>
  /** Answers the client; nothing was sent before. */
  send(reply: Reply): void
}
