// Replies as they arrive at a client, and replies that must not be sent.

import type { ServerResponse } from 'node:http'
import type { Reply } from '@stampede/core/adapter'
import { toHeaders } from '@stampede/core/testing'
import { describe, expect, test } from 'vitest'
import { fieldOf, type RawResponse, rawRequest, serve } from '../testing/raw-client.ts'
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
  ['a response without fields', undefined],
  ['a response with fields', (res: ServerResponse) => void res.setHeader('X-Request-Id', '7')],
] as const)('a stored response written to %s', (_, before) => {
  const use = before ? { before } : {}

  test('has its status, repeated fields, and one correct Content-Length', async () => {
    const response = await send(REPLY, use)
    expect(response.head[0]).toBe('HTTP/1.1 200 OK')
    expect(response.body).toBe('hello')
    expect(fieldOf(response, 'content-length')).toEqual(['5'])
    expect(fieldOf(response, 'transfer-encoding')).toEqual([])
    expect(fieldOf(response, 'x-tag')).toEqual(['a', 'b'])
  })

  test('has the fields that a layer sets in end()', async () => {
    const outer = (res: ServerResponse): void => {
      before?.(res)
      const { end } = res
      const own = (...args: unknown[]): unknown => {
        res.setHeader('X-End', String(res.statusCode))
        return Reflect.apply(end, res, args)
      }
      Object.assign(res, { end: own })
    }
    for (const method of ['GET', 'HEAD']) {
      const response = await send({ ...REPLY, status: 201 }, { before: outer, method })
      expect(response.head[0]).toBe('HTTP/1.1 201 Created')
      expect(fieldOf(response, 'x-end')).toEqual(['201'])
      expect(fieldOf(response, 'x-tag')).toEqual(['a', 'b'])
      expect(fieldOf(response, 'content-length')).toEqual(['5'])
      expect(response.body).toBe(method === 'GET' ? 'hello' : '')
    }
  })

  test.each<readonly [string, Reply]>([
    ['a value with a line break', { ...REPLY, headers: [['x-a', 'b\r\nset-cookie: c']] }],
    ['a value outside latin1', { ...REPLY, headers: [['x-a', '\u{1f4a5}']] }],
    ['a name with a space', { ...REPLY, headers: [['x a', 'b']] }],
    ['a status out of range', { ...REPLY, status: 99 }],
  ])('is refused with %s, and leaves the open response unchanged', async (_name, reply) => {
    const response = await send(reply, use)
    expect(response.sent).toBe(false)
    expect(response.body).toContain(`fallback 200 ${before ? 'x-request-id' : ''}`)
  })
})

test('a stored response appends Cache-Status, merges Vary, and replaces other fields', async () => {
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

test('a response that was already sent is left unchanged', async () => {
  const response = await send(REPLY, { before: (res) => void res.end('timed out') })
  expect(response.sent).toBe(true)
  expect(response.body).toBe('timed out')
})

describe('an outer middleware that wraps writeHead', () => {
  /**
   * As on-headers did before 1.1: it takes an array for one of pairs, and passes on the fields it
   * has set.
   */
  const pairsOnly = (res: ServerResponse): void => {
    const { writeHead } = res
    const own = (status: number, fields?: ReadonlyArray<readonly [string, string]>) => {
      for (const [name, value] of fields ?? []) res.setHeader(name, value)
      return writeHead.call(res, status)
    }
    Object.assign(res, { writeHead: own })
  }
  /** A session. Node 20 then keeps one field of each name in an array. */
  const addsCookie = (res: ServerResponse): void => {
    const { writeHead } = res
    const own = (...args: unknown[]): unknown => {
      res.setHeader('Set-Cookie', 'session=1')
      return Reflect.apply(writeHead, res, args)
    }
    Object.assign(res, { writeHead: own })
  }
  const ready = (tags: readonly string[]): Reply => {
    const repeated = tags.flatMap((tag) => ['x-tag', tag])
    const fields = ['content-type', 'text/plain', ...repeated, 'content-length', '5']
    const headers = toHeaders(fields)
    return { status: 200, headers, fields, body: Buffer.from('hello') }
  }

  test.each([
    ['without other fields', undefined, ['a', 'b']],
    // With repeated names the reply would not be sent by the fast path.
    ['beside another field', 'X-Powered-By', ['a']],
  ] as const)('gets the stored fields in a form that it accepts %s', async (_, outer, tags) => {
    const reply = { ...REPLY, headers: tags.map((tag) => ['x-tag', tag] as const) }
    for (const wrap of [pairsOnly, addsCookie]) {
      for (const send of [
        (res: ServerResponse) => writeReply(res, ready(tags)),
        (res: ServerResponse) => writeReply(res, reply),
      ]) {
        await using server = await serve((_req, res) => {
          if (outer !== undefined) res.setHeader(outer, 'Someone')
          wrap(res)
          try {
            send(res)
          } catch {
            res.destroy()
          }
        })
        const response = await rawRequest(server.port)
        expect(response.head[0]).toBe('HTTP/1.1 200 OK')
        expect(fieldOf(response, 'x-tag')).toEqual(tags)
        expect(fieldOf(response, 'content-length')).toEqual(['5'])
        expect(response.body).toBe('hello')
        expect(fieldOf(response, 'set-cookie')).toHaveLength(wrap === addsCookie ? 1 : 0)
      }
    }
  })
})
