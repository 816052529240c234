import { describe, expect, it } from 'vitest'
import { requestKey } from './request-key.ts'

describe('requestKey', () => {
  const url = 'https://shop.example/a?b=2&a=1'

  it('gives the key that a request has with the default options', () => {
    expect(requestKey({ url }).key).toBe('http:GET 5:https12:shop.example2:/a7:a=1&b=2')
    expect(requestKey({ url, host: 'Other.example' }).key).toContain('13:other.example')
  })

  it('follows the options that change the key', () => {
    const query = { ignore: ['b'] }
    expect(requestKey({ url, query }).key).toBe('http:GET 5:https12:shop.example2:/a3:a=1')
    const headers = { 'accept-language': 'DE' }
    const vary = ['accept-language']
    expect(requestKey({ url, vary, headers }).key).toMatch(/\0v15:accept-language2:de$/)
  })

  it('appends the Vary fields of the entry to the key if the request does not match them', () => {
    const entry = { vary: [['accept-language', 'de']] as const }
    const plain = requestKey({ url }).key
    const matching = { url, headers: { 'accept-language': 'de' } }
    expect(requestKey(matching, entry).key).toBe(plain)
    expect(requestKey({ url }, entry).key).toBe(`${plain}\0v15:accept-language-`)
  })

  it('says why a request bypasses the cache', () => {
    expect(requestKey({ url }).bypass).toBeUndefined()
    expect(requestKey({ url, headers: { cookie: 'a=b' } }).bypass).toBe('cookie')
    expect(
      requestKey({ url, headers: { cookie: 'a=b' }, cookies: 'ignore' }).bypass,
    ).toBeUndefined()
  })

  it('refuses a wrong option', () => {
    expect(() => requestKey({ url, vary: ['*'] })).toThrow('stampedeCache.vary')
  })
})
