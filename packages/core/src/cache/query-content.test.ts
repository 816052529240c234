import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { createHttpCache } from '../http-cache.ts'
import type { Exchange, RequestBody, RequestView } from '../ports/exchange.ts'
import { shownKey } from '../ports/key.ts'
import { readCacheOptions } from './cache-options.ts'
import { cacheKey } from './key.ts'
import { readContent } from './query-content.ts'

const METHODS = ['GET', 'QUERY'] as const
type Fields = RequestView['headers']
const JSON_TYPE = { 'content-type': 'application/json' }
const bytes = (body: string | Uint8Array): RequestBody => ({
  type: 'bytes',
  bytes: Buffer.from(body as string),
})

/** The digest of a body, or `bypass` and the reason. */
async function digestOf(
  body: RequestBody | string | Uint8Array,
  headers: Fields = JSON_TYPE,
  query?: { body?: 'canonical' | 'bytes' | ((request: unknown) => unknown) },
): Promise<string> {
  const request: RequestView = {
    ...{ method: 'QUERY', scheme: 'http', host: 'a', target: '/search', headers },
  }
  const read = typeof body === 'object' && 'type' in body ? body : bytes(body)
  const exchange = { request, native: request, readBody: () => read }
  const config = readCacheOptions<unknown, unknown>({ methods: [...METHODS], query })
  const reason = await readContent(exchange as unknown as Exchange<unknown>, config)
  return request.content?.digest ?? `bypass ${reason}`
}

const ofType = (type: string): Fields => ({ 'content-type': type })

describe('the content of a QUERY', () => {
  it.each<[string, string]>([
    ['{"a":1,"b":2}', ' { "b": 2, "a": 1 }\n'],
    ['{"a":"\\u0041"}', '{"a":"A"}'],
    ['[100]', '[1e2]'],
  ])('has one digest for two spellings of one JSON value: %s', async (one, other) => {
    expect(await digestOf(one)).toBe(await digestOf(other))
    expect(await digestOf(one)).toMatch(/^[\w-]{43}$/)
    const mode = { body: 'bytes' } as const
    expect(await digestOf(one, JSON_TYPE, mode)).not.toBe(await digestOf(other, JSON_TYPE, mode))
    const fixed = { ...JSON_TYPE, 'cache-control': 'max-age=0, No-Transform' }
    expect(await digestOf(one, fixed)).not.toBe(await digestOf(other, fixed))
    const text = ofType('text/plain')
    expect(await digestOf(one, text)).not.toBe(await digestOf(other, text))
  })

  it.each<[string, string, string]>([
    ['a member twice', '{"a":1,"a":2}', '{"a":2}'],
    ['a member twice, deep', '[{"a":{"b:":1,"b:":2}}]', '[{"a":{"b:":2}}]'],
    ['numbers of 20 digits', '[12345678901234567890]', '[12345678901234567891]'],
    ['zero and minus zero', '[0]', '[-0]'],
    ['2^53 + 1', '[9007199254740993]', '[9007199254740992]'],
    ['a byte order mark', '\ufeff{"a":1}', '{"a":1}'],
    ['invalid JSON', '{"a":1', '{"a":1 '],
    ['a string and a number', '["1"]', '[1]'],
    ['an empty body', '', '""'],
    ['two texts', 'null', '"null"'],
  ])('has two digests for bodies that a handler may treat differently: %s', async (_, a, b) => {
    expect(await digestOf(a)).not.toBe(await digestOf(b))
  })

  it.each<[string, Fields, Fields]>([
    ['two types', JSON_TYPE, ofType('application/problem+json')],
    ['a charset', JSON_TYPE, ofType('application/json; charset=utf-8')],
    ['a coding', JSON_TYPE, { ...JSON_TYPE, 'content-encoding': 'gzip' }],
    ['a language', JSON_TYPE, { ...JSON_TYPE, 'content-language': 'de' }],
    ['an empty language', JSON_TYPE, { ...JSON_TYPE, 'content-language': '' }],
    ['orders of one parameter', ofType('a/b;x=1;x=2'), ofType('a/b;x=2;x=1')],
  ])('has two digests for two descriptions of one body: %s', async (_, one, other) => {
    expect(await digestOf('{}', one)).not.toBe(await digestOf('{}', other))
  })

  it.each(['application/json;charset=utf-8', 'Application/JSON ; Charset=UTF-8'])(
    'has one digest for spellings of its type: %s',
    async (type) =>
      expect(await digestOf('{}', ofType(type))).toBe(
        await digestOf('{}', ofType('application/json; charset=utf-8;')),
      ),
  )

  it('keeps the order of the fields of a form', async () => {
    const form = ofType('application/x-www-form-urlencoded')
    expect(await digestOf('a=1&b=2', form)).not.toBe(await digestOf('b=2&a=1', form))
    const parsed = (value: unknown): RequestBody => ({ type: 'parsed', value })
    expect(await digestOf(parsed({ a: '1', b: '2' }), form)).not.toBe(
      await digestOf(parsed({ b: '2', a: '1' }), form),
    )
  })

  it('has one digest as bytes and as the value that a parser made', async () => {
    const parsed: RequestBody = { type: 'parsed', value: { b: [1], a: null } }
    expect(await digestOf(parsed)).toBe(await digestOf('{"a":null,"b":[1]}'))
  })

  it('distinguishes values of a parser that JSON writes as null', async () => {
    const parsed = (text: string): RequestBody => ({ type: 'parsed', value: JSON.parse(text) })
    const all = ['[null]', '[1e400]', '[-1e400]', '["Infinity"]'].map(parsed)
    const digests = await Promise.all(all.map((body) => digestOf(body)))
    expect(new Set(digests).size).toBe(all.length)
  })

  it('is not decoded, so that a small body cannot fill the memory', async () => {
    const bomb = gzipSync(Buffer.alloc(30_000_000))
    expect(bomb.byteLength).toBeLessThan(65_536)
    const coded = { ...JSON_TYPE, 'content-encoding': 'gzip' }
    expect(await digestOf(bomb, coded)).toMatch(/^[\w-]{43}$/)
  })

  it.each<[string, Fields, RequestBody?]>([
    ['content-type', {}],
    ['content-type', ofType('')],
    ['content-type', ofType('json')],
    ['content-type', ofType('text;a=b/html')],
    ['content-type', ofType('text/html; charset="utf-8')],
    ['content-type', ofType('text/html, text/plain')],
    ['request-body', { ...JSON_TYPE, 'content-encoding': 'rot13' }],
    ['request-body', { ...JSON_TYPE, 'content-encoding': 'gzip, br' }],
    ['request-body', { ...JSON_TYPE, 'transfer-encoding': 'gzip, chunked' }],
    ['request-body', JSON_TYPE, { type: 'incomplete' }],
    ['body-too-large', JSON_TYPE, { type: 'too-large' }],
    ['body-too-large', { ...JSON_TYPE, 'content-length': '65537' }],
  ])('bypasses the cache with detail=%s for %j', async (reason, headers, body = bytes('{}')) => {
    expect(await digestOf(body, headers)).toBe(`bypass ${reason}`)
  })

  it('may be a value of the option query.body', async () => {
    const by = (key: (request: unknown) => unknown) => digestOf('{}', JSON_TYPE, { body: key })
    expect(await by(() => ({ a: 1, b: 2 }))).toBe(await by(() => ({ b: 2, a: 1 })))
    expect(await by(() => 1)).not.toBe(await by(() => '1'))
    const unlike = [null, Number.NaN, Infinity, -Infinity, undefined, 'NaN']
    const digests = await Promise.all(unlike.map((value) => by(() => [value])))
    expect(new Set(digests).size).toBe(unlike.length)
    const fail = () => {
      throw new Error('no')
    }
    for (const key of [() => undefined, fail, async () => Promise.reject(new Error('no'))])
      expect(await by(key)).toBe('bypass request-body')
  })

  it('rejects if another layer has read the body, unless query.body needs no body', async () => {
    await expect(digestOf({ type: 'unseen' })).rejects.toThrow(/stampedeCache: another layer/)
    expect(await digestOf({ type: 'unseen' }, JSON_TYPE, { body: () => 1 })).toMatch(/^[\w-]{43}$/)
  })

  it('is read in linear time from hostile types', async () => {
    for (const piece of [';', '; ', ' ;', ';a=', ';a="', '\\"', 'a/'])
      await digestOf('{}', ofType(`a/b${piece.repeat(30_000)}`))
  })
})

describe('the key of a QUERY', () => {
  const view = (content?: RequestView['content'], method = 'QUERY'): RequestView => ({
    ...{ method, scheme: 'http', host: 'a', target: '/search?x=1', headers: {}, content },
  })
  const content = { digest: 'D'.repeat(43), body: bytes('secret') }

  it('is a variant of its URL that does not contain the body, and is shown as a QUERY', () => {
    const config = readCacheOptions<RequestView, unknown>()
    const key = cacheKey(view(content), view(), config, [])
    const get = cacheKey(view(undefined, 'GET'), view(), config, [])
    expect(key.startsWith(`${get}\0q43:D`)).toBe(true)
    expect(key).not.toContain('secret')
    expect([shownKey(key), shownKey(get)]).toEqual([
      'QUERY http://a/search?x=1',
      'GET http://a/search?x=1',
    ])
  })

  it('has the body with the options key and identity, too', () => {
    const config = readCacheOptions<RequestView, unknown>({ key: () => 'k', identity: () => 'me' })
    expect(cacheKey(view(content), view(), config, [])).toContain('q43:D')
  })
})

describe('the options of a QUERY', () => {
  const refused = (options: object) => () => readCacheOptions(options)

  it('are checked', () => {
    for (const query of [{ body: 'json' }, { maxBytes: -1 }, { max: 1 }, null, 5])
      expect(refused({ methods: METHODS, query })).toThrow(/stampedeCache\.query/)
    expect(readCacheOptions({ methods: METHODS }).methods).toContain('QUERY')
    expect(readCacheOptions({ query: { ignore: ['a'] } }).methods).not.toContain('QUERY')
  })

  const WRONG = [[], ['QUERY'], ['GET', 'POST'], ['GET', 'HEAD'], ['get'], ['GET', 1], 'GET', null]
  it.each(WRONG.map((methods) => ({ methods })))('begin with methods, not %j', (options) => {
    expect(refused(options)).toThrow(
      /stampedeCache\.methods: received .*; use \['GET'\] or \['GET', 'QUERY'\]/,
    )
  })

  it.each([{ body: 'bytes' }, { maxBytes: 5 }, { ignore: ['a'], body: () => 1 }])(
    'are an error without QUERY among the methods: %o',
    (query) => {
      const error =
        /stampedeCache\.query\.(body|maxBytes): received .*; add methods: \['GET', 'QUERY'\]/
      expect(refused({ query })).toThrow(error)
      expect(refused({ methods: ['GET'], query })).toThrow(error)
      expect(refused({ methods: METHODS, query })).not.toThrow()
    },
  )

  it('are refused for a server whose parser does not know QUERY', () => {
    const create = () => createHttpCache({ methods: METHODS }, { methods: ['GET'] })
    expect(create).toThrow(/stampedeCache\.methods: received .*use Node 22\.2 or newer/)
    createHttpCache({ methods: METHODS }, { methods: ['GET', 'QUERY'] })
  })
})
