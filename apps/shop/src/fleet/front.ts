// The small front before the shop processes: it hands each request to the next process, as a load
// balancer does. The lab itself responds here.

import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  type RequestListener,
  request,
  type ServerResponse,
} from 'node:http'
import type { Address } from '../fire.ts'
import { Problem, respondToError, type ShopResponse } from '../response.ts'

/** Responds to a request itself, or returns false. */
export type OwnRoute = (message: IncomingMessage, response: ServerResponse) => boolean

/** Fields that concern one connection only (RFC 9110 §7.6.1). */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
])
const LOOPBACK = /^(::1|(::ffff:)?127\.\d+\.\d+\.\d+)$/
const ATTEMPTS = 3

export interface Front {
  readonly listener: RequestListener
  /** Ends the open event streams, such as that of the dashboard, so that the server can close. */
  closeStreams(): void
  close(): void
}

export function createFront(next: () => Address | undefined, own: OwnRoute): Front {
  const agent = new Agent({ keepAlive: true })
  const streams = new Set<ServerResponse>()
  return {
    listener: (message, response) => {
      if (!own(message, response)) forward({ message, response, next, agent, streams }, [])
    },
    closeStreams: () => {
      for (const response of streams) response.destroy()
    },
    close: () => agent.destroy(),
  }
}

interface Exchange {
  readonly message: IncomingMessage
  readonly response: ServerResponse
  readonly next: () => Address | undefined
  readonly agent: Agent
  readonly streams: Set<ServerResponse>
}

function forward(exchange: Exchange, tried: readonly Address[]): void {
  const { message, response, agent, streams } = exchange
  const address = nextExcept(tried, exchange.next)
  if (address === undefined) {
    unavailable(exchange)
    return
  }
  const { method, url: path } = message
  const onward = request({ ...address, method, path, headers: headersFor(message), agent })
  onward.on('response', (reply) => {
    response.writeHead(reply.statusCode ?? 502, endToEnd(reply.rawHeaders))
    reply.pipe(response)
    reply.on('error', () => response.destroy())
    if (!reply.headers['content-type']?.startsWith('text/event-stream')) return
    streams.add(response)
    response.once('close', () => streams.delete(response))
  })
  onward.on('error', () => {
    // A request without a body and without an effect can be sent again, to another process.
    const isSafe = method === 'GET' || method === 'HEAD'
    if (response.headersSent || response.destroyed) response.destroy()
    else if (isSafe && tried.length + 1 < ATTEMPTS) forward(exchange, [...tried, address])
    else unavailable(exchange)
  })
  response.once('close', () => abandon(onward, response))
  message.pipe(onward)
}

/**
 * The next process that this request has not tried, or any if all were tried. Other requests take
 * turns between two attempts, so the next process can be the one that has just failed.
 */
function nextExcept(
  tried: readonly Address[],
  next: () => Address | undefined,
): Address | undefined {
  let address = next()
  for (const _ of tried) {
    if (!tried.some(({ port }) => port === address?.port)) break
    address = next()
  }
  return address
}

function abandon(onward: ClientRequest, response: ServerResponse): void {
  if (!response.writableFinished) onward.destroy()
}

/**
 * The shop only lets local clients use the lab. It sees the address of the front, so the front adds
 * a field for every other client.
 */
function headersFor(message: IncomingMessage): string[] {
  const headers = endToEnd(message.rawHeaders)
  const address = message.socket.remoteAddress ?? ''
  return LOOPBACK.test(address) ? headers : [...headers, 'forwarded', 'for=unknown']
}

/** The fields as they came, in their order, without those for one connection. */
function endToEnd(raw: readonly string[]): string[] {
  const kept: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    const [name = '', value = ''] = [raw[i], raw[i + 1]]
    if (!HOP_BY_HOP.has(name.toLowerCase())) kept.push(name, value)
  }
  return kept
}

function unavailable({ message, response }: Exchange): void {
  const problem = new Problem(503, 'No process', 'No process of the shop responds. Try again.')
  sendResponse(response, respondToError(problem, message))
}

export function sendResponse(
  response: ServerResponse,
  { status, headers, body }: ShopResponse,
): void {
  response.writeHead(status, { ...headers, 'content-length': body.length })
  response.end(body)
}
