// Listening on a free port, and the HTTP client of the cases.
import { once } from 'node:events'
import type { ClientRequest, IncomingHttpHeaders } from 'node:http'
import { createServer, type RequestListener, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Resolves with the port of this machine that the server listens on. */
export async function listen(app: RequestListener | Server, backlog = 4_096): Promise<number> {
  const server = typeof app === 'function' ? createServer(app) : app
  server.listen(0, '127.0.0.1', backlog)
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

export interface Sent {
  readonly method?: string
  /** Names and values in turn. A name can come twice. */
  readonly headers?: readonly string[]
  readonly body?: string
  readonly timeoutMs?: number
  /** Called with the request, so that a case can abort it. */
  readonly onRequest?: (sent: ClientRequest) => void
}

export interface Got {
  /** 0 if no complete response came. Then `failure` has the reason. */
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  readonly ms: number
  readonly failure?: string
}

/** Sends a request on a connection of its own. It never throws. */
export function ask(port: number, path: string, sent: Sent): Promise<Got> {
  const { method = 'GET', headers = [], body, timeoutMs = 5_000 } = sent
  const since = performance.now()
  return new Promise((resolve) => {
    const end = (got: Omit<Got, 'ms'>) => {
      clearTimeout(deadline)
      resolve({ ...got, ms: performance.now() - since })
    }
    const failed = (failure: string) =>
      end({ status: 0, headers: {}, body: Buffer.alloc(0), failure })
    const onError = ({ message }: Error) => failed(`no response: ${message}`)
    const options = { host: '127.0.0.1', port, path, method, headers, agent: false }
    const outgoing = request(options, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', onError)
      response.on('end', () => {
        const { statusCode: status = 0 } = response
        end({ status, headers: response.headers, body: Buffer.concat(chunks) })
      })
    })
    const deadline = setTimeout(() => {
      failed(`no response in ${timeoutMs / 1_000} s`)
      outgoing.destroy()
    }, timeoutMs)
    outgoing.on('error', onError)
    sent.onRequest?.(outgoing)
    outgoing.end(body)
  })
}
