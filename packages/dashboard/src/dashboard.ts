// The dashboard of one process: admission, routes, and the parts behind them.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { PurgeTarget } from '@stampede/core'
import { assetAt } from './assets.ts'
import { FleetReader } from './fleet-reader.ts'
import { idempotencyView, settleByBody } from './idempotency-page.ts'
import { keyView, LONGEST_KEY } from './key-page.ts'
import { Live } from './live.ts'
import { locksView } from './locks-page.ts'
import type { DashboardConfig } from './options.ts'
import { failure, type Outcome, posted } from './posted.ts'
import { Reporter } from './reporter.ts'
import { NO_STORE, respond, respondJson } from './respond.ts'

/** A request in the terms of its framework. */
export interface Visit<Native> {
  readonly req: IncomingMessage
  readonly native: Native
  /** Target below the mount point. */
  readonly target: string
  /** Target as the client sent it. */
  readonly originalTarget: string
}

/** Answers one request. `parsed`: its body, if a middleware has read it. */
export type Answer = (res: ServerResponse, parsed: unknown) => void | Promise<void>

export class Dashboard<Native> {
  readonly #config: DashboardConfig<Native>
  readonly #reporter: Reporter
  readonly #reader: FleetReader
  readonly #live: Live

  constructor(config: DashboardConfig<Native>) {
    this.#config = config
    this.#reporter = new Reporter(config)
    this.#reader = new FleetReader(this.#reporter)
    this.#live = new Live(this.#reader, this.#reporter)
  }

  /**
   * Returns how to answer the request, or undefined if the app has to. Authorization comes first,
   * so that other clients cannot find out which paths exist. It runs for each request that the
   * middleware gets, except those outside of the option `path`.
   */
  answerFor(visit: Visit<Native>): Answer | undefined | Promise<Answer | undefined> {
    const { req, native, target } = visit
    const { path, admits } = this.#config
    if (!isBelow(path, target)) return undefined
    const admitted = admits(native, req)
    if (admitted === false) return undefined
    if (admitted === true) return this.#route(visit)
    return admitted.then((isAdmitted) => (isAdmitted ? this.#route(visit) : undefined))
  }

  async close(): Promise<void> {
    this.#live.close()
    await this.#reporter.close()
  }

  #route({ req, target, originalTarget }: Visit<Native>): Answer | undefined {
    const [path = '', query = ''] = splitAt(target.slice(this.#config.path.length), '?')
    if (req.method === 'POST') return this.#post(req, path)
    if (req.method !== 'GET' && req.method !== 'HEAD') return undefined
    if (path === '' || path === '/') {
      const [original = ''] = splitAt(originalTarget, '?')
      return original.endsWith('/') ? file(req, 'index.html') : redirect(req, original)
    }
    const params = new URLSearchParams(query)
    switch (path) {
      case '/api/live':
        return (res) => this.#stream(req, res)
      case '/api/fleet':
        return json(req, () => this.#reader.read())
      case '/api/locks':
        return json(req, () =>
          locksView(this.#reporter.observer.operator, params.get('cursor') ?? ''),
        )
      case '/api/idempotency':
        return json(req, () =>
          idempotencyView(this.#config.stampede.idempotency, req, params.get('cursor') ?? ''),
        )
      case '/api/key':
        return this.#key(req, params.get('key') ?? '')
      default:
        return assetAt(path.slice(1)) && file(req, path.slice(1))
    }
  }

  #stream(req: IncomingMessage, res: ServerResponse): void | Promise<void> {
    if (req.method !== 'GET' || this.#live.isFull || this.#reporter.isClosed) {
      return respondJson(req, res, 503, { error: 'too many viewers, or the dashboard is closed' })
    }
    return this.#live.add(req, res)
  }

  #key(req: IncomingMessage, asked: string): Answer {
    if (asked === '' || asked.length > LONGEST_KEY) {
      return (res) => respondJson(req, res, 400, { error: 'pass a key or a URL' })
    }
    return json(req, async () => {
      await this.#reader.read()
      return keyView(this.#config.stampede, this.#reporter.observer, this.#reader.heard(), asked)
    })
  }

  #post(req: IncomingMessage, path: string): Answer | undefined {
    const { stampede } = this.#config
    const answer =
      (act: Parameters<typeof posted>[2]): Answer =>
      (res, parsed) =>
        send(req, res, posted(req, parsed, act))
    if (path === '/api/settle') return answer((body) => settleByBody(stampede.idempotency, body))
    if (path !== '/api/purge') return undefined
    return answer(async ({ soft, ...target }) => {
      // `purge` checks the target and the options itself.
      await stampede.purge(target as PurgeTarget, { soft } as { soft: boolean })
      return { status: 200, body: { purged: target, soft: soft === true } }
    })
  }
}

function isBelow(path: string, target: string): boolean {
  return target.startsWith(path) && (path === '' || /^(?:$|[/?])/.test(target.slice(path.length)))
}

function splitAt(text: string, mark: string): readonly [string, string] {
  const at = text.indexOf(mark)
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

/** Sends the result as JSON. */
function json(req: IncomingMessage, read: () => Promise<object>): Answer {
  return (res) => {
    const outcome = read().then((body) => ({ status: 200, body }), failure)
    return send(req, res, outcome)
  }
}

async function send(
  req: IncomingMessage,
  res: ServerResponse,
  outcome: Promise<Outcome>,
): Promise<void> {
  const { status, body } = await outcome
  respondJson(req, res, status, body)
}

function file(req: IncomingMessage, name: string): Answer {
  return (res) => {
    const asset = assetAt(name)
    if (asset === undefined) return respondJson(req, res, 500, { error: `${name} is not built` })
    const cacheControl = asset.isImmutable ? 'private, max-age=31536000, immutable' : NO_STORE
    respond(req, res, 200, asset.type, asset.body, { 'Cache-Control': cacheControl })
  }
}

/** To the same path with a slash, by which the page finds its files. Works behind any proxy. */
function redirect(req: IncomingMessage, path: string): Answer {
  const last = path.slice(path.lastIndexOf('/') + 1)
  return (res) => respond(req, res, 302, 'text/plain', '', { Location: `./${last}/` })
}
