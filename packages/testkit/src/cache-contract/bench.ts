// Setup of each case of the cache contract: an app with a cache, on a clock of the test. A test can
// wait for requests and runs.
import { type RequestOptions, request } from 'node:http'
import { connect } from 'node:net'
import {
  createStampede,
  type Stampede,
  type StampedeEvent,
  type StampedeOptions,
} from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import type { Answer } from '../requests.ts'
import type { CacheAdapter, Handler, Outside, RunningApp, Says, Seen } from './adapter.ts'

/** A counter that resolves when it has reached a number. */
export class Counter {
  count = 0
  readonly #waiting = new Map<() => void, number>()

  add(): number {
    this.count += 1
    for (const [resolve, n] of this.#waiting) if (this.count >= n) resolve()
    return this.count
  }

  reached(n: number): Promise<void> {
    if (this.count >= n) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.set(resolve, n))
  }
}

type Act = (seen: Seen, run: number, res: Parameters<Handler>[1]) => ReturnType<Handler>

export interface Bench {
  readonly clock: ManualClock
  readonly stampede: Stampede
  /** Requests that the handler saw, one for each run. */
  readonly seen: readonly Seen[]
  readonly runs: Counter
  /** Requests that came to the cache. */
  readonly arrivals: Counter
  readonly events: readonly StampedeEvent[]
  /** Resolves once `n` events of a type have happened. */
  happened(type: StampedeEvent['type'], n?: number): Promise<void>
  /** If the options are a list, the middleware is mounted once for each of them. */
  start(options?: object | readonly object[]): Promise<RunningApp>
  /** The same app without a cache. */
  bare(): Promise<RunningApp>
}

export interface BenchOptions extends Omit<StampedeOptions, 'clock'> {
  readonly random?: () => number
  readonly outside?: Outside
}

/** The default body is `run <n>`. Lifetimes are exact unless the test sets `random`. */
export function setUp(
  adapter: CacheAdapter,
  act: Act = () => ({}),
  options: BenchOptions = {},
): Bench {
  const { outside, random, ...rest } = options
  const clock = new ManualClock(random)
  const stampede = createStampede({ ...rest, clock })
  const seen: Seen[] = []
  const [runs, arrivals] = [new Counter(), new Counter()]
  const events: StampedeEvent[] = []
  const counters = new Map<string, Counter>()
  const counterOf = (type: string): Counter => {
    const counter = counters.get(type) ?? new Counter()
    counters.set(type, counter)
    return counter
  }
  stampede.on('*', (event) => {
    events.push(event)
    counterOf(event.type).add()
  })
  const handler: Handler = (request, res) => {
    // A copy, because hidden fields are put back afterwards.
    seen.push({ ...request, headers: { ...request.headers } })
    const run = runs.add()
    const fill = (said: Says | undefined) => said && { body: `run ${run}`, ...said }
    const said = act(request, run, res)
    return said instanceof Promise ? said.then(fill) : fill(said)
  }
  const enter: Outside = (res, next) => {
    const pass = () => {
      // When next() returns, the request has entered the cache, and has joined or begun a fill.
      const passed = next()
      arrivals.add()
      return passed
    }
    return outside ? outside(res, pass) : pass()
  }
  return {
    clock,
    stampede,
    seen,
    runs,
    arrivals,
    events,
    happened: (type, n = 1) => counterOf(type).reached(n),
    start(own = {}) {
      const each = [own].flat().map((one: object) => ({ stampede, ttlMs: 10_000, ...one }))
      return adapter.start(each, handler, enter)
    },
    bare: () => adapter.start([], handler, enter),
  }
}

export const statusOf = ({ headers }: Pick<Answer, 'headers'>): string =>
  String(headers['cache-status'])

export interface RawAnswer {
  readonly status: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/**
 * Writes all `requests` at once on one connection, which the last request closes. Each response has
 * the length in its Content-Length. Fails if bytes are malformed or left over, because a response
 * then had another length.
 */
export async function pipelined(url: string, requests: readonly string[]): Promise<RawAnswer[]> {
  const text = await exchange(url, requests.join(''))
  const answers: RawAnswer[] = []
  let at = 0
  while (at < text.length) {
    const end = text.indexOf('\r\n\r\n', at)
    if (!text.startsWith('HTTP/1.1 ', at) || end < 0) throw new Error(`No head at ${at}`)
    const { status, headers } = headOf(text.slice(at, end))
    const length = / 304 /.test(status) ? 0 : Number(headers['content-length'])
    if (!Number.isInteger(length)) throw new Error(`No Content-Length at ${at}`)
    answers.push({ status, headers, body: text.slice(end + 4, end + 4 + length) })
    at = end + 4 + length
  }
  if (at !== text.length) throw new Error(`${at - text.length} bytes are missing`)
  return answers
}

/** Sends one request unchanged. Returns everything until the server closes the connection. */
export async function untilClose(url: string, request: string): Promise<RawAnswer> {
  const text = await exchange(url, request)
  const end = text.indexOf('\r\n\r\n')
  return { ...headOf(text.slice(0, end)), body: text.slice(end + 4) }
}

export interface Whole {
  readonly status: number
  /** Every line of every field, names in lower case. */
  readonly lines: Readonly<Record<string, readonly string[]>>
  readonly body: Buffer
  readonly trailers: Readonly<Record<string, readonly string[]>>
  /** Statuses before the final one. */
  readonly before: readonly number[]
}

/** One response with every line and byte. */
export function whole(url: string, options: RequestOptions = {}): Promise<Whole> {
  return new Promise((resolve, reject) => {
    const before: number[] = []
    const req = request(url, { ...options, agent: false }, (res) => {
      const chunks: Buffer[] = []
      res.on('data', (chunk) => void chunks.push(chunk))
      res.on('error', reject)
      res.on('end', () =>
        resolve({
          status: res.statusCode ?? 0,
          lines: copy(res.headersDistinct),
          body: Buffer.concat(chunks),
          trailers: copy(res.trailersDistinct),
          before,
        }),
      )
    })
    req.on('information', ({ statusCode }) => void before.push(statusCode))
    req.on('error', reject).end()
  })
}

/** Node makes these objects without a prototype, which toEqual would count as a difference. */
const copy = (fields: NodeJS.Dict<string[]>): Record<string, readonly string[]> =>
  Object.fromEntries(Object.entries(fields).map(([name, values = []]) => [name, values]))

/** A request that the test breaks off. */
export function leave(
  url: string,
  headers: Record<string, string> = {},
): { readonly go: () => void } {
  const req = request(url, { agent: false, headers }, (res) => res.on('error', () => {}).resume())
  req.on('error', () => {}).end()
  return { go: () => req.destroy() }
}

export const get = (path: string, ...fields: string[]): string =>
  [`GET ${path} HTTP/1.1`, 'Host: shop.test', ...fields, '', ''].join('\r\n')

function exchange(url: string, bytes: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  const chunks: Buffer[] = []
  return new Promise((resolve, reject) => {
    socket.on('error', reject)
    socket.on('data', (chunk) => void chunks.push(chunk))
    socket.on('close', () => resolve(Buffer.concat(chunks).toString('latin1')))
    socket.write(bytes)
  })
}

function headOf(text: string): Pick<RawAnswer, 'status' | 'headers'> {
  const [status = '', ...lines] = text.split('\r\n')
  const fields = lines.map((line) => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
  })
  return { status, headers: Object.fromEntries(fields) }
}
