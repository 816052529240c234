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

  it.each([
    ['/a/../b', '/b'],
    ['/a/%2e%2e/b', '/b'],
    ['/a\\b', '/a/b'],
    ['/a{b}', '/a%7Bb%7D'],
    ["/a?q=it's", '/a?q=it%27s'],
    ['/a?q="<x>"', '/a?q=%22%3Cx%3E%22'],
    ['?q=1', '/?q=1'],
    ['', '/'],
    ['/a#/../b', '/a'],
    ['/a b', undefined],
    ['/caf\u00e9', undefined],
  ])('has the path %s as written, or as a browser sends it', (target, sent) => {
    const text = `https://shop.example${target}`
    const known = `http:GET 5:https12:shop.example`
    const shown = (key: string) => key.slice(known.length).replace(/\d+:/g, '')
    const written = shown(requestKey({ url: text, asWritten: true }).key)
    const browsers = shown(requestKey({ url: text }).key)
    if (sent === undefined) return expect(written).toBe(browsers)
    expect(browsers).toBe(sent.replace('?', ''))
    const asWritten = target.replace(/[?]|#.*/g, '').replace(/^(?!\/)/, '/')
    expect(written).toBe(asWritten)
  })

  it('has the Host with its capitals, as the key of a request', () => {
    const { key } = requestKey({ url, host: 'Shop.example' })
    expect(key).toBe(`${requestKey({ url }).key}\0f4:host12:Shop.example`)
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

  it('calls no function of the app, which would read a request that is not there', () => {
    const options: object = { bypass: (req: { url: string }) => req.url === '/a' }
    expect(requestKey({ url: 'http://shop/a', ...options })).toEqual(
      requestKey({ url: 'http://shop/a' }),
    )
  })

  it('refuses a wrong option', () => {
    expect(() => requestKey({ url, vary: ['*'] })).toThrow('stampedeCache.vary')
  })
})
