// The clients: each request as its person sends it, and every byte that comes back.

import { type Agent, type IncomingMessage, request } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { HEADER_OF } from './people.ts'
import type { RequestSpec, Scenario } from './scenario.ts'

export interface Received {
  readonly status: number
  readonly reason: string
  /** Names and values, flat, as they came; trailers too. */
  readonly raw: readonly string[]
  readonly headers: IncomingMessage['headers']
  /** Without its content coding. */
  readonly body: string
  /** Not cut off by a client that left. */
  readonly complete: boolean
}

/** `gone`: the client left, or was left. `stuck`: nothing came for as long as anybody would wait. */
export type Reply = Received | 'gone' | 'stuck'

const PATIENCE_MS = 8_000

export function targetFor({ people }: Scenario, spec: RequestSpec): string {
  const rest = spec.carries.includes('url') ? people[spec.who]?.values.url : undefined
  return `/r${spec.route}/${rest ?? `p${spec.query}`}`
}

export function headersFor({ people }: Scenario, spec: RequestSpec): Record<string, string> {
  const headers: Record<string, string> = { ...spec.headers, host: 'localhost' }
  const cookies: string[] = []
  const values = people[spec.who]?.values ?? {}
  for (const channel of spec.carries) {
    const value = values[channel]
    if (value === undefined || channel === 'url') continue
    if (channel === 'sid' || channel === 'tag') cookies.push(`${channel}=${value}`)
    else headers[HEADER_OF[channel] ?? channel] = value
  }
  if (cookies.length > 0) headers.cookie = cookies.join('; ')
  return headers
}

export function send(
  agent: Agent,
  port: number,
  scenario: Scenario,
  spec: RequestSpec,
): Promise<Reply> {
  return new Promise((resolve) => {
    const outgoing = request({
      agent,
      port,
      host: '127.0.0.1',
      method: spec.method,
      path: targetFor(scenario, spec),
      headers: headersFor(scenario, spec),
      setHost: false,
    })
    const patience = setTimeout(() => {
      resolve('stuck')
      outgoing.destroy()
    }, PATIENCE_MS)
    const leave =
      spec.abortMs === undefined ? undefined : setTimeout(() => outgoing.destroy(), spec.abortMs)
    const end = (reply: Reply): void => {
      clearTimeout(patience)
      clearTimeout(leave)
      resolve(reply)
    }
    outgoing.on('error', () => end('gone'))
    outgoing.on('response', (incoming) => {
      const chunks: Buffer[] = []
      incoming.on('data', (chunk) => chunks.push(chunk))
      // What came before a break is looked at too.
      incoming.on('close', () => end(received(incoming, Buffer.concat(chunks))))
    })
    outgoing.end()
  })
}

function received(incoming: IncomingMessage, bytes: Buffer): Received {
  return {
    status: incoming.statusCode ?? 0,
    reason: incoming.statusMessage ?? '',
    raw: [...incoming.rawHeaders, ...incoming.rawTrailers],
    headers: incoming.headers,
    body: incoming.complete ? decoded(incoming, bytes) : bytes.toString(),
    complete: incoming.complete,
  }
}

function decoded({ headers }: IncomingMessage, bytes: Buffer): string {
  if (headers['content-encoding'] !== 'gzip' || bytes.length === 0) return bytes.toString()
  try {
    return gunzipSync(bytes).toString()
  } catch {
    return `not gzip, though it says so: ${bytes.toString()}`
  }
}
