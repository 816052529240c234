// Many real HTTP requests at once, as clients in front of a fleet send them.
import { Agent, type IncomingHttpHeaders, request } from 'node:http'

export interface RequestOptions {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string
  /** Default 60,000. A request that takes longer ends as failed. */
  readonly timeoutMs?: number
}

export interface Answer {
  readonly url: string
  /** The status. 0 if no complete response came, with the reason in `error`. */
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly latencyMs: number
  readonly error?: Error
}

/**
 * Sends `n` requests at once to `urls` in turn, each on a socket of its own. Resolves with one
 * response per request, in their order. A failed request is a response too, so that none is lost.
 */
export async function burst(
  urls: readonly string[],
  n: number,
  options: RequestOptions = {},
): Promise<Answer[]> {
  const agent = new Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY })
  const targets = Array.from({ length: n }, (_, i) => urls[i % urls.length] ?? '')
  try {
    return await Promise.all(targets.map((url) => ask(url, options, agent)))
  } finally {
    agent.destroy()
  }
}

/** Sends one request. Never rejects: a failure is an `Answer` with status 0. */
export function ask(url: string, options: RequestOptions = {}, agent?: Agent): Promise<Answer> {
  const { method = 'GET', headers = {}, body, timeoutMs = 60_000 } = options
  const startedAt = performance.now()
  return new Promise((resolve) => {
    const end = (answer: Pick<Answer, 'status' | 'headers' | 'body' | 'error'>) => {
      clearTimeout(timer)
      resolve({ url, latencyMs: performance.now() - startedAt, ...answer })
    }
    const fail = (error: Error) => end({ status: 0, headers: {}, body: '', error })
    const req = request(url, { method, headers, agent: agent ?? new Agent() }, (res) => {
      let text = ''
      res.setEncoding('utf8')
      res.on('data', (chunk) => {
        text += chunk
      })
      res.on('end', () => end({ status: res.statusCode ?? 0, headers: res.headers, body: text }))
      res.on('error', fail)
    })
    const timer = setTimeout(
      () => req.destroy(new Error(`No answer within ${timeoutMs} ms`)),
      timeoutMs,
    )
    req.on('error', fail)
    req.end(body)
  })
}
