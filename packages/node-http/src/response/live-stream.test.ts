// A follower's view of a streamed response, on HTTP/1 and HTTP/2: bytes as they come, and a broken
// transfer after a break.

import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect, createServer, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { LiveChunks, LiveReply } from '@stampede/core/adapter'
import { expect, onTestFinished, test } from 'vitest'
import { rawRequest, serve } from '../testing/raw-client.ts'
import { canBreakOff, writeLive } from './live-stream.ts'

/** Sends the texts, and then ends or breaks. */
function chunksOf(
  texts: readonly string[],
  how: 'ends' | 'breaks',
): LiveChunks & { left: boolean } {
  const rest = [...texts]
  return {
    left: false,
    async next() {
      await new Promise(setImmediate)
      const text = rest.shift()
      if (text !== undefined) return { done: false, value: Buffer.from(text) }
      if (how === 'breaks') throw new Error('cut')
      return { done: true, value: undefined }
    },
    return() {
      this.left = true
    },
  }
}

const reply = (body: LiveChunks, rest: Partial<LiveReply> = {}): LiveReply => ({
  status: 200,
  headers: [['x-a', '1']],
  length: undefined,
  body,
  ...rest,
})

const serveLive = (live: LiveReply, told: boolean[] = []) =>
  serve((_req, res) => {
    told.push(writeLive(res, live))
    if (told.at(-1) === false) res.end('own')
  })

test('a live stream is chunked if its length is unknown, and otherwise has a Content-Length', async () => {
  await using chunked = await serveLive(reply(chunksOf(['ab', 'c'], 'ends')))
  expect((await rawRequest(chunked.port)).body).toBe('2\r\nab\r\n1\r\nc\r\n0\r\n\r\n')
  await using counted = await serveLive(reply(chunksOf(['ab', 'c'], 'ends'), { length: 3 }))
  const response = await rawRequest(counted.port)
  expect(response.body).toBe('abc')
  expect(response.head.map((line) => line.toLowerCase())).toContain('content-length: 3')
})

test('a live stream that breaks off is sent without a final chunk', async () => {
  const chunks = chunksOf(['ab'], 'breaks')
  await using server = await serveLive(reply(chunks))
  const { body } = await rawRequest(server.port)
  expect(body).not.toContain('0\r\n\r\n')
  expect(chunks.left).toBe(true)
})

test('a live stream with an invalid field is not sent, and leaves the response unchanged', async () => {
  const chunks = chunksOf(['ab'], 'ends')
  const told: boolean[] = []
  await using server = await serveLive(reply(chunks, { headers: [['x', 'a\r\nb']] }), told)
  expect((await rawRequest(server.port)).body).toBe('own')
  expect([told, chunks.left]).toEqual([[false], true])
})

test('a live stream ends its reader at once if the client has already left', async () => {
  const chunks = chunksOf(['ab'], 'ends')
  const told: boolean[] = []
  await using server = await serve((_req, res) => {
    res.destroy()
    told.push(writeLive(res, reply(chunks)))
  })
  await rawRequest(server.port)
  expect([told, chunks.left]).toEqual([[true], true])
})

test('a live stream is not sent on HTTP/1.0, where a break looks like the end of the body', async () => {
  const seen: boolean[] = []
  await using server = await serve((req, res) => {
    seen.push(canBreakOff(Object.assign(req, { httpVersionMinor: 0 })))
    res.end()
  })
  await rawRequest(server.port)
  expect(seen).toEqual([false])
})

test('a live stream that breaks off is reset on HTTP/2', async () => {
  const bodies = [chunksOf(['ab', 'c'], 'ends'), chunksOf(['ab'], 'breaks')]
  const { get } = await serveHttp2((res) => {
    const [body] = bodies.splice(0, 1)
    if (body) writeLive(res, reply(body))
  })
  expect(await get()).toBe('abc 0')
  expect(await get()).toMatch(/^(ab)? 2$/)
})

test('a live stream on HTTP/2 is reset in a later turn, outside a callback of node:http2', async () => {
  const turns: string[] = []
  const { get } = await serveHttp2((res, stream) => {
    const close = stream.close.bind(stream)
    stream.close = (code) => {
      turns.push('reset')
      close(code)
    }
    setImmediate(() => turns.push('next turn'))
    // The chunks break off in this turn, as when the leader's stream is reset.
    const next = () => Promise.reject(new Error('cut'))
    writeLive(res, reply({ ...chunksOf([], 'breaks'), next }))
  })
  expect(await get()).toBe(' 2')
  expect(turns).toEqual(['next turn', 'reset'])
})

test('a live stream on HTTP/2 ends its reader at once if the client has already left', async () => {
  const chunks = chunksOf(['ab'], 'ends')
  const told: boolean[] = []
  const { get } = await serveHttp2((res, stream) => {
    stream.once('close', () => told.push(writeLive(res, reply(chunks))))
    stream.destroy()
  })
  await get()
  await expect.poll(() => [told, chunks.left]).toEqual([[true], true])
})

async function serveHttp2(
  listener: (res: ServerResponse, stream: ServerHttp2Stream) => void,
): Promise<{ get(): Promise<string> }> {
  const server = createServer((_req, res) => listener(res as never, res.stream))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  onTestFinished(() => {
    client.destroy()
    server.close()
  })
  return {
    get: () =>
      new Promise<string>((resolve) => {
        const stream = client.request({ ':path': '/' }).setEncoding('utf8')
        let text = ''
        stream.on('data', (chunk) => {
          text += chunk
        })
        stream.on('error', () => {})
        stream.on('close', () => resolve(`${text} ${stream.rstCode}`))
      }),
  }
}
