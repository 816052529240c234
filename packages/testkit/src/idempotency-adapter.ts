// The interface that an author of an adapter implements for the contract of idempotency keys, and
// the contract's client.
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
  /** Runs of this path, in both processes. */
  readonly run: number
}

/** The framework sends a stream in its own way, and chooses values that are missing. */
export interface Said {
  readonly status?: number
  readonly headers?: Record<string, string | string[]>
  readonly body?: string | Buffer | Readable
}

/**
 * A layer of the app: a function with the parameters of an Express middleware, or `gzip` for the
 * compression of the framework.
 */
export type Layer =
  | 'gzip'
  | ((req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void)

/** Options of the app that an idempotency adapter starts for a test. */
export interface AppOptions {
  readonly stampede: Stampede
  /** Options of idempotency(). The default scope is the header `x-user`. */
  readonly rules?: object
  readonly outside?: readonly Layer[]
  readonly inside?: readonly Layer[]
  /**
   * Mounts the middleware under each of these paths instead of `/`, as a router does. With an empty
   * list it is not mounted.
   */
  readonly mounts?: readonly string[]
  /**
   * Called for every request that reaches the end of the app. The app sends its return value. For
   * `undefined` the app responds by itself: `/ways/<way>`, `/odd/<name>`. The framework handles
   * thrown errors. If the error has a property `answer`, an error handler responds with that status
   * and `{"error": "<the error as a string>"}`.
   */
  readonly visit: (arrival: Arrival) => Said | undefined | Promise<Said | undefined>
}

/**
 * Counts the runs of a handler by path. The app itself handles the routes `/ways` and `/odd`, which
 * are counted too.
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

/** A framework with `idempotency`, as its contract needs it. */
export interface IdempotencyAdapter {
  readonly name: string
  /** `POST /ways/<way>`: each way to respond in this framework. */
  readonly ways: readonly string[]
  /**
   * `POST /odd/<name>`: each way to continue after a response of 201 with the body `"first"`, such
   * as a second response or an error. `trailers`, which sends that body with the trailer `X-Sum:
   * 7`, is not in the list.
   */
  readonly odd: readonly string[]
  start(options: AppOptions): Promise<RunningApp>
}

/** A handler that tells the test when it runs, and responds when the test lets it. */
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
  /** If this signal is aborted, the client leaves, and its response is `cut`. */
  readonly signal?: AbortSignal
}

export interface Got {
  readonly status: number
  /** Every line as sent, names in lower case. */
  readonly fields: ReadonlyArray<readonly [string, string]>
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
  readonly trailers: IncomingMessage['trailers']
  /** Whether the response has no end. */
  readonly cut: boolean
}

/** Sends one request on a connection of its own. Never rejects. */
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
