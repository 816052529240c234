// The types of an adapter for the contract of idempotency keys, and the HTTP client of that
// contract.
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { Attempt, Stampede } from '@stampede/core'
import type { RunningApp } from './cache-contract/adapter.ts'
import { createGate } from './gate.ts'

export interface Arrival {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly attempt: Attempt | undefined
}

export interface Visit extends Arrival {
  /** Number of this run of the path, counted over both processes. */
  readonly run: number
}

/**
 * The response of a handler. The framework fills in missing fields, and sends a stream in its own
 * way.
 */
export interface Said {
  readonly status?: number
  readonly headers?: Record<string, string | string[]>
  readonly body?: string | Buffer | Readable
}

/** A layer, as in Express. `gzip` stands for the compression of the framework. */
export type Layer =
  | 'gzip'
  | ((req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void)

export interface AppOptions {
  readonly stampede: Stampede
  /** Options of idempotency(); the default scope is the header `x-user`. */
  readonly rules?: object
  readonly outside?: readonly Layer[]
  readonly inside?: readonly Layer[]
  /** Mounts the middleware under each of these paths instead of `/`. An empty list mounts none. */
  readonly mounts?: readonly string[]
  /**
   * Called for each request that reaches the end of the app. The app sends the result as its
   * response. For `undefined`, the app itself responds (`/ways/<way>`, `/odd/<name>`). The
   * framework handles thrown errors. If an error has a property `answer`, an error handler responds
   * with that status and `{"error": "<the error as a string>"}`.
   */
  readonly visit: (arrival: Arrival) => Said | undefined | Promise<Said | undefined>
}

/**
 * Counts the runs of a handler by path. Requests of `/ways` and `/odd` are counted, but the app
 * responds.
 */
export function countRuns(handler: (visit: Visit) => Said | Promise<Said>): {
  readonly visit: AppOptions['visit']
  runs(path: string): number
} {
  const runs = new Map<string, number>()
  const visit: AppOptions['visit'] = ({ req, res, attempt }) => {
    const [path = ''] = (req.url ?? '').split('?')
    const run = (runs.get(path) ?? 0) + 1
    runs.set(path, run)
    return /^\/(ways|odd)\//.test(path) ? undefined : handler({ req, res, attempt, run })
  }
  return { visit, runs: (path: string): number => runs.get(path) ?? 0 }
}

export interface IdempotencyAdapter {
  readonly name: string
  /** `POST /ways/<way>`: each way to respond in this framework. */
  readonly ways: readonly string[]
  /**
   * `POST /odd/<name>`: unusual acts of a handler after a 201 response with the body `"first"`,
   * such as a second response or an error. `/odd/trailers` is not in the list: it sends that body
   * with the trailer `X-Sum: 7`.
   */
  readonly odd: readonly string[]
  start(options: AppOptions): Promise<RunningApp>
}

/** A handler that resolves `atWork` when it starts, and responds after `letGo()`. */
export function gated(): {
  readonly atWork: Promise<Visit>
  handler(visit: Visit): Promise<Said>
  letGo(): void
} {
  const gate = createGate()
  let tell: (visit: Visit) => void = () => {}
  const atWork = new Promise<Visit>((resolve) => {
    tell = resolve
  })
  const handler = async (visit: Visit): Promise<Said> => {
    tell(visit)
    await gate.opened
    return { status: 201, body: 'done' }
  }
  return { handler, atWork, letGo: gate.open }
}

export interface Post {
  readonly method?: string
  readonly key?: string
  readonly user?: string
  readonly body?: string
  readonly headers?: Record<string, string>
  /** When aborted, the client leaves. `cut` is then true. */
  readonly signal?: AbortSignal
}

export interface Got {
  readonly status: number
  /** Every header line as sent, with the name in lower case. */
  readonly fields: ReadonlyArray<readonly [string, string]>
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
  readonly trailers: IncomingMessage['trailers']
  /** Whether the end of the response is missing. */
  readonly cut: boolean
}

/** Sends one request on a new connection. Never rejects. */
export function post(url: string, options: Post = {}): Promise<Got> {
  const { method = 'POST', key = 'k', user = 'ada', body = '{"amount":1}', signal } = options
  const headers = {
    'content-type': 'application/json',
    'idempotency-key': key,
    'x-user': user,
    'content-length': String(Buffer.byteLength(body)),
    ...options.headers,
  }
  return new Promise((resolve) => {
    const none = {
      status: 0,
      fields: [],
      headers: {},
      trailers: {},
      body: Buffer.alloc(0),
      cut: true,
    }
    const sent = request(url, { method, headers, agent: false, ...(signal && { signal }) })
    sent.on('error', () => resolve(none))
    sent.on('response', (res) => {
      const chunks: Buffer[] = []
      res.on('data', (chunk: Buffer) => chunks.push(chunk))
      res.on('error', () => {})
      res.on('close', () => {
        const { rawHeaders } = res
        const fields = rawHeaders.flatMap((name, i) =>
          i % 2 === 0 ? [[name.toLowerCase(), rawHeaders[i + 1] ?? ''] as const] : [],
        )
        const { statusCode: status = 0, headers, trailers, complete } = res
        resolve({
          status,
          fields,
          headers,
          trailers,
          body: Buffer.concat(chunks),
          cut: !complete,
        })
      })
    })
    sent.end(body)
  })
}
