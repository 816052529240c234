import { describe, expect, it } from 'vitest'
import type { RequestView } from '../ports/exchange.ts'
import { likenessOf } from './likeness.ts'

const view = (headers: RequestView['headers'], more: Partial<RequestView> = {}): RequestView => ({
  method: 'GET',
  scheme: 'http',
  host: 'shop.test',
  target: '/a?b=1',
  headers,
  ...more,
})
const plain = likenessOf(view({ accept: 'text/html', 'accept-language': 'en' }))

describe('two requests', () => {
  it('are alike for any order of their header fields', () => {
    const turned = view({ 'accept-language': 'en', accept: 'text/html' })
    expect(likenessOf(turned)).toBe(plain)
    expect(plain).toMatch(/^[\w-]{22}$/)
  })

  it.each([
    ['connection', 'close'],
    ['if-none-match', '"1"'],
    ['if-modified-since', 'x'],
    ['range', 'bytes=0-1'],
    ['if-range', '"1"'],
    ['te', 'trailers'],
    ['x-request-id', '2b1f8a52-9d1c-4a7e-8f35-0a4c7d9e6b10'],
    ['traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
    ['host', 'the key has it'],
    ['x-other', undefined],
  ])('are alike if one of them has %s: %s', (name, value) => {
    const headers = { accept: 'text/html', 'accept-language': 'en', [name]: value }
    expect(likenessOf(view(headers))).toBe(plain)
  })

  it.each([
    ['accept-language', 'x_x'],
    ['user-agent', ''],
    ['x-forwarded-for', '10.0.0.1'],
    ['cookie', 'a=1'],
    ['x-request-id', "'; drop table"],
    ['traceparent', 'x_x'],
    ['x-list', ['a', 'b']],
  ])('are not alike if one of them has %s: %s', (name, value) => {
    const headers = { accept: 'text/html', 'accept-language': 'en', [name]: value }
    expect(likenessOf(view(headers))).not.toBe(plain)
  })

  it('are not alike if their bodies spell one JSON value in two ways', () => {
    const sent = (text: string) =>
      view({}, { content: { digest: 'd', body: { type: 'bytes', bytes: Buffer.from(text) } } })
    expect(likenessOf(sent('{ "a": 1 }'))).not.toBe(likenessOf(sent('{"a":1}')))
  })

  it('are not alike if one value contains the serialized field of the other', () => {
    expect(likenessOf(view({ a: '1', b: '2' }))).not.toBe(likenessOf(view({ a: '1","b","2' })))
  })
})
