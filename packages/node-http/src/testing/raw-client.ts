// For tests: servers that are closed with their test, and a client that returns the raw bytes.

import { createServer, type RequestListener, type Server } from 'node:http'
import * as http2 from 'node:http2'
import type { AddressInfo } from 'node:net'
import { connect, type Socket } from 'node:net'

export interface TestServer extends AsyncDisposable {
  readonly port: number
}

export async function serve(listener: RequestListener): Promise<TestServer> {
  const server: Server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const close = async (): Promise<void> => {
    const closed = new Promise((resolve) => server.close(resolve))
    server.closeAllConnections()
    await closed
  }
  return { port, [Symbol.asyncDispose]: close }
}

export interface Http2TestServer extends AsyncDisposable {
  readonly port: number
  readonly client: http2.ClientHttp2Session
}

/** A server of HTTP/2, and a client with a connection to it. */
export async function serveHttp2(
  listener: (req: http2.Http2ServerRequest, res: http2.Http2ServerResponse) => unknown,
): Promise<Http2TestServer> {
  const server = http2.createServer((req, res) => void listener(req, res))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const client = http2.connect(`http://127.0.0.1:${port}`).on('error', () => {})
  const close = async (): Promise<void> => {
    client.destroy()
    await new Promise((resolve) => server.close(resolve))
  }
  return { port, client, [Symbol.asyncDispose]: close }
}

/** A socket on which the head of a request has been written. Errors of the socket are ignored. */
export function startRequest(port: number, head: readonly string[]): Socket {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  return socket
}

export interface RawResponse {
  /** Status line and fields as sent, without `Date`. */
  readonly head: readonly string[]
  /** The body as sent, with chunk sizes if it was chunked. */
  readonly body: string
}

export async function rawRequest(
  port: number,
  path = '/',
  fields: readonly string[] = [],
  method = 'GET',
): Promise<RawResponse> {
  const socket = startRequest(port, [
    `${method} ${path} HTTP/1.1`,
    'Host: shop.test:8080',
    'Connection: close',
    ...fields,
  ])
  const received: Buffer[] = []
  socket.on('data', (chunk: Buffer) => received.push(chunk))
  await new Promise((resolve) => socket.once('close', resolve))
  const text = Buffer.concat(received).toString('latin1')
  const [head = '', ...body] = text.split('\r\n\r\n')
  const lines = head.split('\r\n').filter((line) => !/^date:/i.test(line))
  return { head: lines, body: body.join('\r\n\r\n') }
}

/** The values of one field, as sent. */
export function fieldOf(response: RawResponse, name: string): string[] {
  const start = `${name.toLowerCase()}:`
  return response.head
    .filter((line) => line.toLowerCase().startsWith(start))
    .map((line) => line.slice(start.length).trim())
}
