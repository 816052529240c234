// The origin's view of fields that request less than the full response.

import type { IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { rawRequest, serve } from '../testing/raw-client.ts'
import { hideConditionals } from './conditionals.ts'
import { readRequest } from './read-request.ts'

const FIELDS = ['If-None-Match: "1"', 'Range: bytes=0-1', 'If-Range: "1"', 'X-Tag: a', 'X-Tag: b']

async function withRequest(fields: readonly string[], use: (req: IncomingMessage) => void) {
  let failure: unknown
  await using server = await serve((req, res) => {
    try {
      use(req)
    } catch (error) {
      failure = error
    }
    res.end()
  })
  await rawRequest(server.port, '/', fields)
  if (failure !== undefined) throw failure
}

test('conditions and Range are hidden in every header property of the request, and later restored', () =>
  withRequest(FIELDS, (req) => {
    const { headers, rawHeaders } = req
    const restore = hideConditionals(req)
    expect(Object.keys(req.headers)).toEqual(['host', 'connection', 'x-tag'])
    expect(Object.keys(req.headersDistinct)).toEqual(['host', 'connection', 'x-tag'])
    expect(req.headersDistinct['x-tag']).toEqual(['a', 'b'])
    expect(req.rawHeaders.join()).toBe('Host,shop.test:8080,Connection,close,X-Tag,a,X-Tag,b')
    restore()
    expect(req.headers).toEqual(headers)
    expect(req.rawHeaders).toEqual(rawHeaders)
    expect(req.headersDistinct.range).toEqual(['bytes=0-1'])
  }))

test('fields that the handler adds remain when the hidden fields are restored', () =>
  withRequest(FIELDS, (req) => {
    const restore = hideConditionals(req)
    req.headers['x-user'] = '7'
    restore()
    expect(req.headers).toMatchObject({ 'x-user': '7', range: 'bytes=0-1' })
  }))

test('the cache still sees conditions that are hidden from the handler', () =>
  withRequest(FIELDS, (req) => {
    const view = readRequest(req, { scheme: 'http', host: 'shop.test', target: '/' })
    hideConditionals(req)
    expect(view.headers['if-none-match']).toBe('"1"')
    expect(req.headers['if-none-match']).toBeUndefined()
  }))

test('other conditions may replace the hidden ones in every header property', () =>
  withRequest(FIELDS, (req) => {
    const { headers, rawHeaders } = req
    const restore = hideConditionals(req, [
      ['if-none-match', '"2"'],
      ['if-modified-since', 'Sun, 06 Nov 1994 08:49:37 GMT'],
    ])
    expect(req.headers).toMatchObject({ 'if-none-match': '"2"', 'x-tag': 'a, b' })
    expect(req.headers).not.toHaveProperty('range')
    expect(req.headersDistinct['if-none-match']).toEqual(['"2"'])
    expect(req.headersDistinct['if-range']).toBeUndefined()
    expect(req.rawHeaders.slice(-4)).toEqual([
      'if-none-match',
      '"2"',
      'if-modified-since',
      'Sun, 06 Nov 1994 08:49:37 GMT',
    ])
    restore()
    restore()
    expect(req.headers).toEqual(headers)
    expect(req.rawHeaders).toEqual(rawHeaders)
    expect(req.headersDistinct['if-modified-since']).toBeUndefined()
  }))

test('a request without conditions can get conditions for a time, and then loses them', () =>
  withRequest(['X-Tag: a'], (req) => {
    const { headers } = req
    const restore = hideConditionals(req, [['if-none-match', '"2"']])
    expect(req.headers['if-none-match']).toBe('"2"')
    restore()
    expect(req.headers).toEqual(headers)
    expect(req.rawHeaders.join()).not.toContain('none-match')
  }))
