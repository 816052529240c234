// A request with an idempotency key whose handler is scripted: it responds, throws or dies when the
// test says so.

import type { HttpIdempotency } from '../http-idempotency.ts'
import type { Attempt } from '../idempotency/attempt.ts'
import type { HeaderList, Reply, RequestBody, RequestView } from '../ports/exchange.ts'
import type {
  AttemptEnd,
  AttemptObserver,
  IdempotentExchange,
} from '../ports/idempotent-exchange.ts'

export interface Asked {
  /** The Idempotency-Key field. An array has several lines. Default: none. */
  readonly key?: string | readonly string[]
  readonly user?: unknown
  readonly method?: string
  readonly target?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Text is sent unchanged, anything else as JSON. Default: no body. */
  readonly body?: unknown
  /** The visible form of the body, if not its bytes. */
  readonly seen?: RequestBody
}

export interface Answered {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** `by`: core itself, the handler under a key, or the app without keys. */
export interface Got {
  readonly by: 'core' | 'handler' | 'bypass'
  readonly status: number
  readonly headers: HeaderList
  readonly body: string
}

export class ScriptedRequest implements IdempotentExchange<ScriptedRequest> {
  readonly request: RequestView
  readonly native: this = this
  readonly user: unknown
  /** The response that the client got. */
  got: Got | undefined
  /** The error that the framework got. */
  error: unknown
  /** The attempt that the handler got. */
  given: Attempt | undefined
  readonly #lines: Readonly<Record<string, readonly string[]>>
  readonly #body: RequestBody
  #observer: AttemptObserver | undefined
  #ended: () => void = () => {}

  constructor(asked: Asked) {
    const { key, user = 'user-1', method = 'POST', target = '/orders', body } = asked
    const typed = body === undefined ? {} : { 'content-type': 'application/json' }
    const headers = { ...typed, ...asked.headers }
    this.user = user
    this.request = { method, scheme: 'http', host: 'shop.test', target, headers }
    const own = Object.entries(headers).map(([name, value]) => [name, [value]])
    const keys = key === undefined ? [] : [key].flat()
    this.#lines = Object.fromEntries([...own, ...(keys.length > 0 ? [[KEY, keys]] : [])])
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const plain: RequestBody =
      body === undefined ? { type: 'none' } : { type: 'bytes', bytes: Buffer.from(text) }
    this.#body = asked.seen ?? plain
  }

  /** Whether the handler is running. */
  get isRunning(): boolean {
    return this.#observer !== undefined
  }

  get attempt(): Attempt {
    if (this.given === undefined) throw new Error('the handler was given no attempt')
    return this.given
  }

  get observer(): AttemptObserver {
    if (this.#observer === undefined) throw new Error('the handler does not run')
    return this.#observer
  }

  /** The last value of a response field. */
  field(name: string): string | undefined {
    return this.got?.headers.findLast(([key]) => key === name)?.[1]
  }

  /** The problem document that the client got. */
  get problem(): Record<string, unknown> {
    return JSON.parse(this.got?.body ?? '')
  }

  /** The handler responds. Settles when the client has the response. */
  answer({ status = 200, headers = {}, body = '' }: Answered = {}): Promise<void> {
    const head = { status, headers: Object.entries(headers) }
    return this.end({ type: 'complete', head, body: Buffer.from(body) })
  }

  async end(end: AttemptEnd): Promise<void> {
    const { observer } = this
    this.#observer = undefined
    const reply = await observer.onEnd(end)
    if (observer.holdsAll && reply) this.#take('core', reply)
    else if (end.type === 'complete') this.#take('handler', { ...end.head, body: end.body })
    else if (end.type === 'not-retained') this.#take('handler', { ...end.head, body: undefined })
    if (end.type === 'failed') this.error = end.error
    this.#ended()
  }

  isSet = (): boolean => false

  lines(name: string): readonly string[] {
    return this.#lines[name.toLowerCase()] ?? []
  }

  async readBody(maxBytes: number): Promise<RequestBody> {
    const body = this.#body
    if (body.type !== 'bytes' || body.bytes.byteLength <= maxBytes) return body
    return { type: 'too-large' }
  }

  forward(add: HeaderList): void {
    this.#take('bypass', { status: 200, headers: add, body: undefined })
  }

  run(observer: AttemptObserver): Promise<void> {
    if (this.#observer !== undefined) throw new Error('the handler was run twice for one request')
    this.#observer = observer
    return new Promise((resolve) => {
      this.#ended = resolve
    })
  }

  send(reply: Reply): void {
    this.#take('core', reply)
  }

  #take(by: Got['by'], { status, headers, body }: Reply): void {
    if (this.got !== undefined) throw new Error('the client was answered twice')
    this.got = { by, status, headers, body: Buffer.from(body ?? []).toString() }
  }
}

const KEY = 'idempotency-key'

/** Sends a request. Its result is visible when promises have settled. */
export function send(http: HttpIdempotency<ScriptedRequest>, asked: Asked = {}): ScriptedRequest {
  const request = new ScriptedRequest(asked)
  const handled = async () =>
    http.handle(request, (attempt) => {
      request.given = attempt
    })
  handled().catch((error: unknown) => {
    request.error = error
  })
  return request
}
