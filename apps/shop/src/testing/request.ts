// One HTTP request of a test, written as a chain: `await request(server).get('/').expect(200)`.

import { once } from 'node:events'
import {
  createServer,
  type IncomingHttpHeaders,
  request as open,
  type RequestListener,
  type Server,
} from 'node:http'
import type { AddressInfo } from 'node:net'

interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests know what the JSON has.
  readonly body: any
}

/** Requests to a server, or to a listener that gets a server for this request. */
export function request(to: Server | RequestListener) {
  return {
    get: (path: string) => new Pending(to, 'GET', path),
    head: (path: string) => new Pending(to, 'HEAD', path),
    post: (path: string) => new Pending(to, 'POST', path),
    put: (path: string) => new Pending(to, 'PUT', path),
    delete: (path: string) => new Pending(to, 'DELETE', path),
  }
}

/** It is sent when it is awaited. */
class Pending implements PromiseLike<Reply> {
  readonly #to: Server | RequestListener
  readonly #method: string
  readonly #headers: Record<string, string> = {}
  #path: string
  #body: string | undefined
  #status: number | undefined

  constructor(to: Server | RequestListener, method: string, path: string) {
    this.#to = to
    this.#method = method
    this.#path = path
  }

  set(name: string | Readonly<Record<string, string>>, value = ''): this {
    const fields = typeof name === 'string' ? { [name]: value } : name
    for (const [each, text] of Object.entries(fields)) this.#headers[each.toLowerCase()] = text
    return this
  }

  query(parameters: Record<string, string>): this {
    this.#path += `?${new URLSearchParams(parameters)}`
    return this
  }

  /** Text as it is, anything else as JSON. */
  send(body: unknown): this {
    this.#body = typeof body === 'string' ? body : JSON.stringify(body)
    this.#headers['content-type'] ??= 'application/json'
    return this
  }

  /** The status that the reply must have. */
  expect(status: number): this {
    this.#status = status
    return this
  }

  // biome-ignore lint/suspicious/noThenProperty: a test awaits the chain.
  then<A = Reply, B = never>(
    onReply?: ((reply: Reply) => A | PromiseLike<A>) | null,
    onError?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#send().then(onReply, onError)
  }

  async #send(): Promise<Reply> {
    const server = typeof this.#to === 'function' ? createServer(this.#to) : this.#to
    const isOwn = !server.listening
    if (isOwn) await once(server.listen(0), 'listening')
    try {
      const reply = await this.#ask((server.address() as AddressInfo).port)
      if (this.#status === undefined || this.#status === reply.status) return reply
      const what = `${this.#method} ${this.#path}`
      throw new Error(`${what}: ${reply.status} instead of ${this.#status}: ${reply.text}`)
    } finally {
      if (isOwn) server.close()
    }
  }

  async #ask(port: number): Promise<Reply> {
    const options = { method: this.#method, path: this.#path, headers: this.#headers }
    const asked = open({ ...options, host: '127.0.0.1', port, agent: false })
    // A server that refuses a large body may close the connection before it has read all of it.
    asked.on('error', () => {})
    asked.end(this.#body)
    const [response] = await once(asked, 'response')
    let text = ''
    for await (const chunk of response.setEncoding('utf8')) text += chunk
    const isJson = /json/.test(response.headers['content-type'] ?? '') && text !== ''
    const { statusCode: status, headers } = response
    return { status, headers, text, body: isJson ? JSON.parse(text) : {} }
  }
}
