import { setImmediate } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import type { RequestView } from '../ports/exchange.ts'
import { admit } from './admit.ts'
import { type CacheRules, readCacheOptions } from './cache-options.ts'

type Options = CacheRules<unknown>

const view = (
  headers: RequestView['headers'] = {},
  rest: Partial<RequestView> = {},
): RequestView => ({
  method: 'GET',
  scheme: 'http',
  host: 'example.com',
  target: '/a?b=1',
  headers,
  ...rest,
})
const judge = (request: RequestView, options: Options = {}, native: unknown = {}) =>
  admit(request, native, readCacheOptions(options))
const reason = (headers: RequestView['headers'], options?: Options) => judge(view(headers), options)

describe('admit() with an ordinary request', () => {
  it.each(['GET', 'HEAD'])('admits %s', (method) => {
    expect(judge(view({}, { method }))).toBeUndefined()
  })

  it.each([
    { range: 'bytes=0-1' },
    { 'if-none-match': '"a"' },
    { 'if-modified-since': 'Sun, 06 Nov 1994 08:49:37 GMT' },
    { 'if-range': '"a"' },
    { 'cache-control': 'no-cache' },
    { 'cache-control': 'no-store, max-age=0' },
    { 'cache-control': 'only-if-cached' },
    { pragma: 'no-cache' },
    { 'content-length': '0' },
    { cookie: '' },
    { cookie: ' ' },
  ])('admits a GET with %j', (headers) => expect(reason(headers)).toBeUndefined())

  it('admits a target such as //host/a as a path', () => {
    expect(judge(view({}, { target: '//evil/x' }))).toBeUndefined()
  })
})

describe('admit() with a credential in a field other than Authorization', () => {
  const names = ['x-api-key', 'x-auth-token', 'proxy-authorization', 'x-forwarded-user']

  it.each(names)('bypasses for %s, as for Authorization', (name) => {
    expect(reason({ [name]: 'k' })).toBe('authorization')
    expect(reason({ [name]: 'k' }, { cookies: 'ignore', vary: ['x-other'] })).toBe('authorization')
    expect(reason({ [name]: 'k' }, { authorization: { ignore: ['x-other'] } })).toBe(
      'authorization',
    )
  })

  it.each(names)('admits %s if the options allow it', (name) => {
    expect(reason({ [name]: 'k' }, { authorization: 'ignore' })).toBeUndefined()
    expect(reason({ [name]: 'k' }, { authorization: { ignore: [name] } })).toBeUndefined()
    expect(reason({ [name]: 'k' }, { identity: () => 'k' })).toBeUndefined()
    expect(reason({ [name]: 'k' }, { vary: [name] })).toBeUndefined()
  })

  it('recognises a credential field after thousands of other field names', () => {
    const long = `${'x-'.repeat(4_000)}token`
    for (const _again of [1, 2]) expect(reason({ [long]: 'k' })).toBe('authorization')
    for (let i = 0; i < 3_000; i++) expect(reason({ [`x-made-up-${i}`]: 'k' })).toBeUndefined()
    expect(reason({ 'x-token': 'k' })).toBe('authorization')
    expect(reason({ 'user-agent': 'k', 'x-method-override': undefined })).toBeUndefined()
  })

  it('ignores only the credential fields that authorization.ignore names', () => {
    const options: Options = { authorization: { ignore: ['Authorization'] } }
    expect(reason({ authorization: 'Bearer x' }, options)).toBeUndefined()
    expect(reason({ authorization: 'Bearer x', 'x-api-key': 'k' }, options)).toBe('authorization')
    expect(reason({ authorization: 'Bearer x' }, { vary: ['authorization'] })).toBe('authorization')
  })
})

describe('admit() with a client certificate or a login of the connection', () => {
  const of = (rest: Partial<RequestView>, options: Options = {}) => judge(view({}, rest), options)
  const both = { hasClientCertificate: true, hasLogin: true }

  it('bypasses for a client certificate', () => {
    expect(of({ hasClientCertificate: true })).toBe('client-certificate')
    expect(of({ hasClientCertificate: true }, { authorization: 'ignore' })).toBe(
      'client-certificate',
    )
    expect(of({ hasClientCertificate: false, hasLogin: false })).toBeUndefined()
  })

  it('bypasses for a login of the connection', () => {
    expect(of({ hasLogin: true })).toBe('connection-auth')
    expect(of({ hasLogin: true }, { cookies: 'ignore' })).toBe('connection-auth')
  })

  it('admits both if identity puts the caller in the key', () => {
    expect(of(both, { identity: () => 'me' })).toBeUndefined()
  })

  it('ignores both only if authorization.ignore names both', () => {
    const ignore = (...names: string[]): Options => ({ authorization: { ignore: names } })
    expect(of(both, ignore('client-certificate', 'authorization'))).toBeUndefined()
    expect(of(both, ignore('client-certificate'))).toBe('connection-auth')
    expect(of(both, ignore('authorization'))).toBe('client-certificate')
    expect(of({ hasLogin: true }, { authorization: 'ignore' })).toBeUndefined()
  })
})

describe('admit() with a request that the cache cannot serve', () => {
  it.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'QUERY', 'PURGE', 'get', ''])(
    'bypasses for the method %s',
    (method) => expect(judge(view({}, { method }))).toEqual('method'),
  )

  it.each(['*', 'http://evil/x', 'example.com:443', '', '?a=1', '/a#b?c=1', '/a?c=1#b'])(
    'bypasses for the target %s',
    (target) => expect(judge(view({}, { target }))).toEqual('target'),
  )

  it.each([
    ['upgrade', { upgrade: 'websocket', connection: 'upgrade' }],
    ['method-override', { 'x-http-method-override': 'DELETE' }],
    ['request-body', { 'content-length': '1' }],
    ['request-body', { 'content-length': 'x' }],
    ['request-body', { 'transfer-encoding': 'chunked' }],
    ['precondition', { 'if-match': '"a"' }],
    ['precondition', { 'if-unmodified-since': 'Sun, 06 Nov 1994 08:49:37 GMT' }],
    ['authorization', { authorization: 'Bearer x' }],
    ['authorization', { authorization: '' }],
    ['cookie', { cookie: 'a=1' }],
  ])('bypasses for %s: %j', (expected, headers: RequestView['headers']) => {
    expect(judge(view(headers))).toEqual(expected)
  })
})

it('admit() bypasses for a body without Content-Length, even with the caller in the key', () => {
  const refused = 'request-body'
  expect(judge(view({}, { hasBody: true }))).toEqual(refused)
  expect(judge(view({}, { hasBody: true }), { identity: () => 'me' })).toEqual(refused)
  expect(judge(view({}, { hasBody: false }))).toBeUndefined()
  expect(judge(view({ 'content-length': '1' }, { hasBody: false }))).toEqual(refused)
})

describe('admit() with credentials', () => {
  const both = { authorization: 'Bearer x', cookie: 'a=1' }

  it('ignores Authorization or cookies if the option for them is ignore', () => {
    expect(reason(both, { authorization: 'ignore' })).toBe('cookie')
    expect(reason(both, { cookies: 'ignore' })).toBe('authorization')
    expect(reason(both, { cookies: 'ignore', authorization: 'ignore' })).toBeUndefined()
    expect(reason({ cookie: 'a=1' }, { cookies: { key: ['a'] } })).toBeUndefined()
  })

  it('admits the request if identity puts the caller in the key', () => {
    expect(reason(both, { identity: () => 'me' })).toBeUndefined()
  })

  it('still bypasses for a request body', () => {
    expect(reason({ ...both, 'content-length': '3' }, { identity: () => 'me' })).toBe(
      'request-body',
    )
  })
})

describe('the bypass option', () => {
  it('is called after all other checks, with the native request', () => {
    const seen: unknown[] = []
    const bypass = (native: unknown) => seen.push(native) === 1
    expect(judge(view({ cookie: 'a=1' }), { bypass }, 'native')).toBe('cookie')
    expect(judge(view(), { bypass }, 'native')).toEqual('option')
    expect(judge(view(), { bypass }, 'native')).toBeUndefined()
    expect(seen).toEqual(['native', 'native'])
  })

  it('makes the request fail if the function throws or returns a promise', () => {
    const cause = new Error('boom')
    const throwing = () => {
      throw cause
    }
    expect(() => judge(view(), { bypass: throwing })).toThrow(
      expect.objectContaining({ code: 'ERR_STAMPEDE_OPTION', cause }),
    )
    const late = (async () => false) as unknown as () => boolean
    expect(() => judge(view(), { bypass: late })).toThrow(
      'stampedeCache.bypass: the function returned a promise',
    )
  })

  it('leaves no unhandled rejection behind if the function is async and throws', async () => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    const bypass = (() => Promise.reject(new Error('async'))) as unknown as () => boolean
    expect(() => judge(view(), { bypass })).toThrow('the function returned a promise')
    await setImmediate()
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
  })
})
