// The HTTP client of the cases: one connection per request. It never throws.
import { type IncomingHttpHeaders, request } from 'node:http'

export interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly timeoutMs?: number
}

export interface Got {
  /** 0 if no complete response came. */
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  readonly ms: number
}

/** `cut`: the connection ended before the response did. */
export function ask(port: number, path: string, sent: Sent = {}): Promise<Got> {
  const { method = 'GET', headers = {}, timeoutMs = 5_000 } = sent
  const since = performance.now()
  return new Promise((resolve) => {
    const none = () =>
      resolve({ status: 0, headers: {}, body: Buffer.alloc(0), ms: performance.now() - since })
    const fields = { Host: 'shop.test', ...headers }
    const options = { host: '127.0.0.1', port, path, method, headers: fields, agent: false }
    const outgoing = request(options, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', none)
      response.on('end', () => {
        const { statusCode: status = 0 } = response
        const body = Buffer.concat(chunks)
        resolve({ status, headers: response.headers, body, ms: performance.now() - since })
      })
    })
    outgoing.setTimeout(timeoutMs, () => outgoing.destroy(new Error('late')))
    outgoing.on('error', none)
    outgoing.end()
  })
}
