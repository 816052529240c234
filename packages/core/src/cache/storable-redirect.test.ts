import { describe, expect, it } from 'vitest'
import type { RequestView } from '../ports/exchange.ts'
import { type CacheRules, readCacheOptions } from './cache-options.ts'
import { judgeHead } from './storable.ts'

/** The reason for which a redirect from `target` to `location` is not storable. */
function reason(
  target: string,
  location: string,
  { options = {}, ...rest }: Partial<RequestView> & { options?: CacheRules } = {},
): string {
  const request: RequestView = {
    ...{ method: 'GET', scheme: 'http', host: 'a.test', headers: {} },
    ...rest,
    target,
  }
  const head = { status: 301, headers: [['location', location] as const] }
  const verdict = judgeHead(head, request, readCacheOptions({ ttlMs: 1_000, ...options }), 0)
  return typeof verdict === 'string' ? verdict : 'stored'
}

describe('a redirect to its own key', () => {
  it.each([
    ['/p', '/p'],
    ['/p', 'p'],
    ['/p', ''],
    ['/p', '#part'],
    ['/p', '//a.test/p'],
    ['/p', 'http://a.test/p'],
    ['/p', 'http://A.TEST:80/p#part'],
    ['/p', 'https://a.test/p'],
    ['/p?', '/p'],
    ['/?', 'http://a.test'],
    ['/p?b=1&a=2', '/p?a=2&b=1'],
    ['/p?b=1&a=2', '?a=2&b=1'],
    ["/p?b='&a=2", "/p?a=2&b='"],
    ['//p', 'http://a.test//p'],
    ['/./p', '/p'],
  ])('is not stored: %s to %s', (target, location) => {
    expect(reason(target, location)).toBe('self-redirect')
  })

  it.each(['A.test', 'A.TEST:80', 'a.test:80'])('is not stored for the host %s', (host) => {
    expect(reason('/p', 'http://a.test/p', { host })).toBe('self-redirect')
    expect(reason('/p', '/p', { host })).toBe('self-redirect')
  })

  it.each(['', 'a b', 'a.test:99999', '[', 'a@b'])(
    'is not stored for the bad host "%s"',
    (host) => {
      expect(reason('/p?b=1&a=2', '/p?a=2&b=1', { host })).toBe('self-redirect')
    },
  )

  it('is not stored if only parameters differ that the query option ignores', () => {
    const options = { query: { ignore: ['utm'] } }
    expect(reason('/p?utm=1', '/p', { options })).toBe('self-redirect')
    expect(reason('/p?utm=1', '/p')).toBe('stored')
  })

  it('is not stored under a custom key either', () => {
    const options = { key: () => 'k' }
    expect(reason('/p?b=1&a=2', '/p?a=2&b=1', { options })).toBe('self-redirect')
  })
})

describe('a redirect to another key', () => {
  it.each([
    ['/p', '/P'],
    ['/p', '/p/'],
    ['/p', '/p?a'],
    ['/p', '//b.test/p'],
    ['/p', 'http://www.a.test/p'],
    ['/p', 'http://a.test:8080/p'],
    ['/%61', '/a'],
    ['/p?a=1&a=2', '/p?a=2&a=1'],
    ['/p', 'app://a.test/p'],
    ['/p', 'http://['],
  ])('is stored: %s to %s', (target, location) => {
    expect(reason(target, location)).toBe('stored')
  })
})
