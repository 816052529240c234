// One request of one user to a simulated process: the port that the adapters implement, without
// HTTP below it.

import type {
  CapturedHead,
  Exchange,
  HeaderList,
  OriginEnd,
  OriginObserver,
  Reply,
} from '@stampede/core/adapter'

type RequestView = Exchange['request']

/** The caller, known to the app by a channel that is not in the key. */
export interface Visitor {
  readonly user: string
  readonly path: string
  readonly language: string
}

export interface Page {
  readonly head: CapturedHead
  readonly body: Uint8Array
}

/** The response that the client got. */
export type Got = Pick<Reply, 'status' | 'headers' | 'body'>

export class SimExchange implements Exchange<Visitor> {
  readonly request: RequestView
  readonly native: Visitor
  readonly #app: () => Promise<Page>
  readonly #onGot: (got: Got) => void
  #left = false
  #wasAnswered = false

  /** `app` runs for each call of the handler. `onGot` is called once. */
  constructor(path: string, native: Visitor, app: () => Promise<Page>, onGot: (got: Got) => void) {
    const headers = { 'accept-language': native.language }
    this.request = { method: 'GET', scheme: 'http', host: 'shop.test', target: path, headers }
    this.native = native
    this.#app = app
    this.#onGot = onGot
  }

  leave(): void {
    this.#left = true
  }

  isGone(): boolean {
    return this.#left
  }

  async forward(add: HeaderList): Promise<void> {
    await this.#app().then(
      ({ head, body }) => this.send({ ...head, headers: [...head.headers, ...add], body }),
      () => this.send(BROKEN),
    )
  }

  runOrigin(observer: OriginObserver): Promise<void> {
    return this.#run(observer, (reply) => this.send(reply)).then(observer.ended)
  }

  /** In the background of a response that was sent already, so no client gets it. */
  redispatch(observer: OriginObserver): Promise<void> {
    return this.#run(observer, () => {}).then(observer.ended)
  }

  send(reply: Reply): void {
    if (this.#wasAnswered) throw new Error('the client was answered twice')
    this.#wasAnswered = true
    this.#onGot(reply)
  }

  async #run(observer: OriginObserver, send: (reply: Reply) => void): Promise<OriginEnd> {
    let page: Page
    try {
      page = await this.#app()
    } catch (error) {
      send(BROKEN)
      return { type: 'failed', status: 500, error }
    }
    const { head, body } = page
    const decision = observer.onHead(head, body, [this.native, undefined])
    if (decision.action === 'replace') {
      send(decision.reply)
      return { type: 'replaced', head }
    }
    send({ ...head, headers: [...head.headers, ...decision.add], body })
    if (!decision.capture) return { type: 'not-captured', reason: 'declined' }
    return { type: 'complete', head, body }
  }
}

const BROKEN: Reply = { status: 500, headers: [], body: undefined }
