// Cases: which requests share a response, and how many variants are stored.
import { expect, it } from 'vitest'
import { ask } from '../requests.ts'
import type { CacheAdapter } from './adapter.ts'
import { get, pipelined, setUp, statusOf, untilClose } from './bench.ts'

export function keyCases(adapter: CacheAdapter): void {
  it('stores one variant for equal Accept-Encoding fields in any order', async () => {
    const { runs, start } = setUp(adapter, () => ({ headers: { vary: 'Accept-Encoding' } }))
    await using app = await start()
    const asking = (codings: string) =>
      ask(`${app.url}/a`, { headers: { 'accept-encoding': codings } })
    await asking('gzip, br')
    for (const same of ['br, gzip', 'gzip;q=1.0,br', 'BR,GZIP', 'gzip, deflate, br']) {
      expect((await asking(same)).body, same).toBe('run 1')
    }
    expect((await asking('gzip')).body).toBe('run 2')
    expect(runs.count).toBe(2)
  })

  it('sends a compressed body only to clients that accept it, even without Vary in the response', async () => {
    const { runs, start } = setUp(adapter, ({ headers }) =>
      headers['accept-encoding'] === 'gzip'
        ? { headers: { 'content-encoding': 'gzip' }, body: 'coded' }
        : { body: 'plain' },
    )
    await using app = await start()
    const asking = async (coding: string) =>
      (await ask(`${app.url}/a`, { headers: { 'accept-encoding': coding } })).body
    for (const _round of [1, 2]) {
      expect(await asking('gzip')).toBe('coded')
      expect(await asking('identity')).toBe('plain')
    }
    expect(runs.count).toBe(2)
  })

  it('sends no body in a coding that the client refuses, whichever coding the handler prefers', async () => {
    const takes = (accept: string, coding: string) =>
      accept.split(', ').some((each) => each === coding || each === '*') &&
      !accept.includes(`${coding};q=0`)
    const { start } = setUp(adapter, ({ headers: { 'accept-encoding': accept } }) => {
      const coding = ['deflate', 'gzip'].find((each) => takes(String(accept), each))
      const headers = { vary: 'Accept-Encoding', ...(coding && { 'content-encoding': coding }) }
      return { headers, body: coding ?? 'plain' }
    })
    await using app = await start()
    const clients = [
      ...['gzip, deflate', 'gzip', 'gzip, deflate;q=0', '*', '*, deflate;q=0', 'deflate', 'br'],
      ...['*, deflate;q=0, gzip;q=0', 'identity', 'gzip;q=0'],
    ]
    for (const accept of [...clients, ...clients, ...clients.toReversed()]) {
      const { body } = await ask(`${app.url}/a`, { headers: { 'accept-encoding': accept } })
      expect(body === 'plain' || takes(accept, body), `${accept}: ${body}`).toBe(true)
    }
    expect((await ask(`${app.url}/a`)).body).toBe('plain')
  })

  it('still stores the variant of a client after another client made up 200 variants', async () => {
    const { runs, start } = setUp(adapter, (seen) => ({
      headers: { vary: 'X-Made-Up' },
      body: `for ${seen.headers['x-made-up']}`,
    }))
    await using app = await start()
    const names = [...Array.from({ length: 200 }, (_, i) => String(i)), 'real']
    const requests = [...names, 'real'].map((name) => get('/a', `X-Made-Up: ${name}`))
    const last = get('/a', 'X-Made-Up: real', 'Connection: close')
    const answers = await pipelined(app.url, [...requests, last])
    expect(answers.map(({ body }) => body)).toEqual(
      [...names, 'real', 'real'].map((name) => `for ${name}`),
    )
    for (const { headers } of answers) {
      expect(headers['cache-status']).not.toContain('too-many-variants')
    }
    expect(statusOf(answers.at(-1) as (typeof answers)[number])).toContain('hit')
    expect(runs.count).toBe(201)
  })

  it('sends each client its own variant even when a response changes its Vary', async () => {
    let says: 'X-Lang' | 'X-Tone' | undefined = 'X-Lang'
    const { clock, start } = setUp(adapter, (seen) => ({
      headers: says === undefined ? {} : { vary: says },
      body: `${says} ${says === undefined ? '' : seen.headers[says.toLowerCase()]}`,
    }))
    await using app = await start()
    const asking = (lang: string, tone: string) =>
      ask(`${app.url}/a`, { headers: { 'x-lang': lang, 'x-tone': tone } })
    const expectAll = async (own: (lang: string, tone: string) => string) => {
      for (const _ of [1, 2]) {
        for (const [lang, tone] of [
          ['de', 'warm'],
          ['fr', 'warm'],
          ['de', 'cold'],
        ] as const) {
          expect((await asking(lang, tone)).body).toBe(own(lang, tone))
        }
      }
      await clock.advance(11_000)
    }
    await expectAll((lang) => `X-Lang ${lang}`)
    says = undefined
    await expectAll(() => 'undefined ')
    says = 'X-Tone'
    await expectAll((_lang, tone) => `X-Tone ${tone}`)
    says = 'X-Lang'
    await expectAll((lang) => `X-Lang ${lang}`)
  })

  it('does not share a response that repeats the Origin of its request, even without Vary: Origin', async () => {
    const { start } = setUp(adapter, ({ path, headers: { origin } }) => ({
      headers: {
        'access-control-allow-origin': String(origin),
        ...(path === '/says' && { vary: 'Origin' }),
      },
    }))
    await using app = await start()
    const allowed = async (path: string, origin: string) => {
      const answer = await ask(app.url + path, { headers: { origin } })
      return [answer.headers['access-control-allow-origin'], /hit;/.test(statusOf(answer))]
    }
    for (const isHit of [false, true]) {
      for (const origin of ['https://a.test', 'https://b.test']) {
        expect(await allowed('/silent', origin)).toEqual([origin, false])
        expect(await allowed('/says', origin)).toEqual([origin, isHit])
      }
    }
  })

  it('stores one response for each JSONP callback in the query', async () => {
    const { runs, start } = setUp(adapter, ({ query }) => ({
      headers: { 'content-type': 'text/javascript' },
      body: `${new URLSearchParams(query).get('callback')}({"a":1})`,
    }))
    await using app = await start()
    for (const _ of [1, 2]) {
      for (const name of ['one', 'two']) {
        expect((await ask(`${app.url}/a?callback=${name}`)).body).toBe(`${name}({"a":1})`)
      }
    }
    expect(runs.count).toBe(2)
  })

  it.each(['X-Forwarded-Host: evil.test', 'X-Forwarded-Proto: http', 'X-Original-URL: /evil'])(
    'sends no other client a response that one client changed by %s',
    async (field) => {
      const name = field.split(':', 1).join().toLowerCase()
      const { runs, start } = setUp(adapter, ({ headers }) => ({
        status: 301,
        headers: { location: `https://${headers[name] ?? 'shop.test'}/` },
      }))
      await using app = await start()
      const asking = async (...fields: string[]) => {
        const { headers } = await untilClose(app.url, get('/a', 'Connection: close', ...fields))
        return headers.location
      }
      for (const _round of [1, 2]) {
        expect(await asking(field)).toBe(`https://${field.slice(field.indexOf(' ') + 1)}/`)
        expect(await asking()).toBe('https://shop.test/')
      }
      expect(runs.count).toBe(2)
    },
  )

  it.each([
    ['the host in capitals', 'SHOP.test', '/a'],
    ['parameters out of order', 'shop.test', '/a?b=1&a=2'],
    ['a bare ?', 'shop.test', '/a?'],
  ])('stores no redirect that the handler sends because of %s', async (_what, host, target) => {
    const { runs, start } = setUp(adapter, ({ url, headers }) => {
      const { pathname, searchParams } = new URL(url, 'http://shop.test')
      searchParams.sort()
      const canonical = searchParams.size > 0 ? `${pathname}?${searchParams}` : pathname
      if (url === canonical && headers.host === 'shop.test') return { body: 'the page' }
      return { status: 301, headers: { location: `http://shop.test${canonical}` } }
    })
    await using app = await start()
    const asking = (path: string, name: string) =>
      untilClose(app.url, `GET ${path} HTTP/1.1\r\nHost: ${name}\r\nConnection: close\r\n\r\n`)
    const redirect = await asking(target, host)
    expect(redirect.status).toBe('HTTP/1.1 301 Moved Permanently')
    expect(statusOf(redirect)).toBe('Stampede; fwd=uri-miss; fwd-status=301; detail=self-redirect')
    const followed = (redirect.headers.location ?? '').replace('http://shop.test', '')
    const page = await asking(followed, 'shop.test')
    expect([page.body, statusOf(page)]).toEqual([
      'the page',
      'Stampede; fwd=uri-miss; fwd-status=200; stored',
    ])
    expect(statusOf(await asking(followed, 'shop.test'))).toBe('Stampede; hit; ttl=10')
    expect(runs.count).toBe(2)
  })

  it('distinguishes a cookie in the key from text that only some parsers treat as that cookie', async () => {
    const { start } = setUp(adapter, ({ headers }) => ({ body: String(headers.cookie) }))
    await using app = await start({ cookies: { key: ['lang'] } })
    const cookies = ['a=1;\tlang=en', 'lang =en', 'lang=en', 'b=1; lang=en ; a=1']
    for (const cookie of cookies) {
      const asked = get('/a', 'Connection: close', `Cookie: ${cookie}`)
      expect((await untilClose(app.url, asked)).body).toContain(cookie.trim())
    }
  })
}
