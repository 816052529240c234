// The origin outside the fleet: an HTTP server in the test process. It counts calls, gives scripted
// responses, and holds them at a gate until the test opens it.
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createGate, type Gate } from '../../packages/testkit/src/gate.ts'

export { createGate }

export interface OriginAnswer {
  readonly status?: number
  readonly headers?: Record<string, string | string[]>
  /**
   * Default: `<path> #<number of the call>`, so that a stored response names the call that produced
   * it.
   */
  readonly body?: string | Buffer
  readonly delayMs?: number
  readonly gate?: Gate
}

export interface OriginCall {
  readonly method: string
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** 1 for the first call of this path. */
  readonly number: number
}

export interface Origin extends AsyncDisposable {
  readonly url: string
  /**
   * The number of calls of a path. A path with a query counts exactly that target. Without a path,
   * all calls.
   */
  calls(path?: string): number
  /** The calls themselves, in order of arrival. */
  requests(path?: string): readonly OriginCall[]
  /** Sets the response of a path. A function is called for each request. */
  answer(path: string, answer: OriginAnswer | ((call: OriginCall) => OriginAnswer)): void
  /** Resolves as soon as `count` calls of `path` have arrived, finished or not. */
  arrived(path: string, count?: number): Promise<void>
  stop(): Promise<void>
}

/** Starts an origin on 127.0.0.1. `delayMs` (default 0) is the time of each unscripted response. */
export async function startOrigin(options: { readonly delayMs?: number } = {}): Promise<Origin> {
  const { delayMs = 0 } = options
  const log: OriginCall[] = []
  const scripts = new Map<string, (call: OriginCall) => OriginAnswer>()
  const arrivals = new Set<() => void>()

  const requests = (path?: string) => log.filter((call) => path === undefined || isFor(call, path))

  const server = createServer(async (req, res) => {
    try {
      let body = ''
      for await (const chunk of req.setEncoding('utf8')) body += chunk
      const { method = '', url = '', headers } = req
      const number = requests(pathOf(url)).length + 1
      const call = { method, url, headers, body, number }
      log.push(call)
      for (const check of arrivals) check()
      const script = scripts.get(pathOf(url)) ?? (() => ({}))
      await reply(res, call, { delayMs, ...script(call) })
    } catch (error) {
      res.destroy(error instanceof Error ? error : undefined)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  async function stop(): Promise<void> {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }

  return {
    url: `http://127.0.0.1:${port}`,
    calls: (path) => requests(path).length,
    requests,
    answer(path, answer) {
      scripts.set(path, typeof answer === 'function' ? answer : () => answer)
    },
    arrived(path, count = 1) {
      return new Promise((resolve) => {
        const check = () => {
          if (requests(path).length < count) return
          arrivals.delete(check)
          resolve()
        }
        arrivals.add(check)
        check()
      })
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

async function reply(res: ServerResponse, call: OriginCall, answer: OriginAnswer): Promise<void> {
  const { status = 200, headers = {}, body = `${pathOf(call.url)} #${call.number}` } = answer
  if (answer.delayMs) await sleep(answer.delayMs)
  await answer.gate?.opened
  res.writeHead(status, { 'content-type': 'text/plain', ...headers })
  // These may not have a body, and node:http discards a written body.
  res.end(status === 204 || status === 304 || call.method === 'HEAD' ? undefined : body)
}

function isFor(call: OriginCall, path: string): boolean {
  return path.includes('?') ? call.url === path : pathOf(call.url) === path
}

function pathOf(url: string): string {
  return url.split('?')[0] ?? url
}
