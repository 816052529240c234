// Replies as they arrive at a client, and those that must not be sent.

import type { ServerResponse } from 'node:http'
import type { Reply } from '@stampede/core'
import { describe, expect, test } from 'vitest'
import { fieldOf, type RawResponse, rawRequest, serve } from './testing/raw-client.ts'
import { writeReply } from './write-response.ts'

const REPLY: Reply = {
  status: 200,
  headers: [
    ['content-type', 'text/plain'],
    ['content-length', '999'],
    ['transfer-encoding', 'chunked'],
    ['x-tag', 'a'],
    ['x-tag', 'b'],
    ['cache-status', 'Stampede; hit'],
    ['vary', 'Accept-Encoding'],
  ],
  body: Buffer.from('hello'),
}

async function send(
  reply: Reply,
  use: { before?: (res: ServerResponse) => void; method?: string } = {},
): Promise<RawResponse & { sent: boolean }> {
  let sent = false
  await using server = await serve((_req, res) => {
    use.before?.(res)
    sent = writeReply(res, reply)
    if (!sent) res.end(`fallback ${res.statusCode} ${res.getHeaderNames().join()}`)
  })
  const response = await rawRequest(server.port, '/', [], use.method)
  return { ...response, sent }
}

describe.each([
  ['a bare response', undefined],
  ['a response with headers', (res: ServerResponse) => void res.setHeader('X-Request-Id', '7')],
] as const)('on %s', (_, before) => {
  const use = before ? { before } : {}

  test('status, repeated fields and body are sent with the one right length', async () => {
    const response = await send(REPLY, use)
    expect(response.head[0]).toBe('HTTP/1.1 200 OK')
    expect(response.body).toBe('hello')
    expect(fieldOf(response, 'content-length')).toEqual(['5'])
    expect(fieldOf(response, 'transfer-encoding')).toEqual([])
    expect(fieldOf(response, 'x-tag')).toEqual(['a', 'b'])
  })

  test('HEAD is answered with the length and no body', async () => {
    const response = await send(REPLY, { ...use, method: 'HEAD' })
    expect(fieldOf(response, 'content-length')).toEqual(['5'])
    expect(response.body).toBe('')
  })

  test.each([204, 304])('%d is answered without length and body', async (status) => {
    const response = await send({ ...REPLY, status }, use)
    expect(fieldOf(response, 'content-length')).toEqual([])
    expect(response.body).toBe('')
  })

  test('a reply without a body has length 0', async () => {
    const response = await send({ status: 503, headers: [], body: undefined }, use)
    expect(fieldOf(response, 'content-length')).toEqual(['0'])
  })

  test.each<readonly [string, Reply]>([
    ['a value with a line break', { ...REPLY, headers: [['x-a', 'b\r\nset-cookie: c']] }],
    ['a value outside latin1', { ...REPLY, headers: [['x-a', '\u{1f4a5}']] }],
    ['a name with a space', { ...REPLY, headers: [['x a', 'b']] }],
    ['a status out of range', { ...REPLY, status: 99 }],
  ])('%s is refused, and the response left untouched', async (_name, reply) => {
    const response = await send(reply, use)
    expect(response.sent).toBe(false)
    expect(response.body).toContain(`fallback 200 ${before ? 'x-request-id' : ''}`)
  })
})

test('Cache-Status is appended, Vary merged, anything else replaced', async () => {
  const response = await send(REPLY, {
    before(res) {
      res.setHeader('Cache-Status', 'Outer; fwd=miss')
      res.setHeader('Vary', 'Origin, accept-encoding')
      res.setHeader('Content-Type', 'text/html')
    },
  })
  expect(fieldOf(response, 'cache-status')).toEqual(['Outer; fwd=miss, Stampede; hit'])
  expect(fieldOf(response, 'vary')).toEqual(['Origin, accept-encoding'])
  expect(fieldOf(response, 'content-type')).toEqual(['text/plain'])
})

test('a response that was answered before is left alone', async () => {
  const response = await send(REPLY, { before: (res) => void res.end('timed out') })
  expect(response.sent).toBe(true)
  expect(response.body).toBe('timed out')
})
