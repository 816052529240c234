// The HTTP client of the cases: one connection per request. It never throws.
import { type ClientRequest, type IncomingHttpHeaders, request } from 'node:http'

export interface Sent {
  /** Values of the header, one line each. Default: the key of the scene. */
  readonly keys?: readonly string[]
  readonly user?: string
  /** The JSON text, byte for byte. */
  readonly body?: string
  /**
   * Fields for the test's own handler: the number of the attempt, and whether the handler must
   * wait.
   */
  readonly attempt?: number
  readonly holdMs?: number
  readonly gated?: boolean
  readonly timeoutMs?: number
  /** Called with the request, so that the case can abort it. */
  readonly onRequest?: (sent: ClientRequest) => void
}

export interface ClientResponse {
  /** 0 if no response came. Then `failure` has the reason. */
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  readonly failure?: string
}

const NOTHING = { status: 0, headers: {}, body: Buffer.alloc(0) }

/** `scene` distinguishes the runs of one case from late runs of another. */
export function post(
  port: number,
  path: string,
  scene: string,
  sent: Sent,
): Promise<ClientResponse> {
  const { timeoutMs = 5_000, body = '{"amount":1}' } = sent
  const headers = [
    'Host',
    `127.0.0.1:${port}`,
    'Content-Type',
    'application/json',
    'X-Scene',
    scene,
  ]
  headers.push('Content-Length', String(Buffer.byteLength(body)), 'X-User', sent.user ?? 'alice')
  for (const key of sent.keys ?? [scene]) headers.push('Idempotency-Key', key)
  if (sent.attempt) headers.push('X-Attempt', String(sent.attempt))
  if (sent.holdMs) headers.push('X-Hold-Ms', String(sent.holdMs))
  if (sent.gated) headers.push('X-Gated', 'yes')

  return new Promise((resolve) => {
    const deadline = setTimeout(() => {
      resolve({ ...NOTHING, failure: `no response in ${timeoutMs / 1_000} s` })
      outgoing.destroy()
    }, timeoutMs)
    const end = (response: ClientResponse) => {
      clearTimeout(deadline)
      resolve(response)
    }
    const failed = (error: Error) => end({ ...NOTHING, failure: `no response: ${error.message}` })
    const options = { host: '127.0.0.1', port, path, method: 'POST', headers, agent: false }
    const outgoing = request(options, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', failed)
      response.on('end', () => {
        const { statusCode: status = 0 } = response
        end({ status, headers: response.headers, body: Buffer.concat(chunks) })
      })
    })
    outgoing.on('error', failed)
    sent.onRequest?.(outgoing)
    outgoing.end(body)
  })
}
