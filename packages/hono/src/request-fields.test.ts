// The fields of a request as a handler of Hono reads them. The server of Hono takes them from
// `rawHeaders`, which may have lines that `req.headers` lacks.

import { once } from 'node:events'
import { connect } from 'node:net'
import { createStampede } from '@stampede/core'
import { type Context, Hono } from 'hono'
import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../core/src/testing/index.ts'
import { idempotency, stampedeCache } from './index.ts'
import { serve } from './testing/serve.ts'

/** The last fields of a head that is too long, by the kind of harm that they could do. */
const FIELDS: Readonly<Record<string, readonly [name: string, value: string]>> = {
  'a credential': ['authorization', 'Bearer evil'],
  'a key': ['x-api-key', 'evil'],
  'a cookie': ['cookie', 'a=evil'],
  'an address': ['x-forwarded-host', 'evil.test'],
  'a second Host': ['host', 'evil.test'],
  'a field in Vary': ['x-lang', 'evil'],
  'a method override': ['x-http-method-override', 'evil'],
  'a condition': ['if-none-match', '"evil"'],
}

const READERS: Readonly<Record<string, (c: Context, name: string) => string>> = {
  'one field': (c, name) => String(c.req.header(name)),
  'all fields': (c) => JSON.stringify(c.req.header()),
  iteration: (c) => [...c.req.raw.headers].join('|'),
  'a copy': (c) => [...new Request(c.req.raw).headers].join('|'),
}

function appOf(read: (c: Context) => string, options: object = {}): Hono {
  const app = new Hono().use(stampedeCache({ ttlMs: 60_000, ...options }))
  return app.get('*', (c) => c.text(read(c), 200, { Vary: 'X-Lang' }))
}

async function raw(url: string, head: readonly string[], body = ''): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('latin1')
  let text = ''
  socket.on('data', (data: string) => {
    text += data
  })
  socket.write(`${[...head, 'Connection: close', '', ''].join('\r\n')}${body}`)
  await once(socket, 'close')
  return text
}

const junk = (n: number): string[] => Array.from({ length: Math.max(0, n) }, (_, i) => `X-${i}: 1`)

describe.each(Object.entries(READERS))('a handler that reads %s', (_, reader) => {
  it.each(Object.entries(FIELDS))(
    'gives no response for %s behind the limit of fields to another client',
    async (_kind, [name, value]) => {
      const runs: string[] = []
      const app = appOf((c) => {
        runs.push(c.req.path)
        return reader(c, name)
      })
      for (const limit of [undefined, 20, 32, 64]) {
        const settings = limit === undefined ? {} : { maxHeadersCount: limit }
        await using server = await serve(app, settings)
        for (const beyond of [-2, 0, 11, 40]) {
          const path = `/${limit}/${beyond}`
          const head = [`GET ${path} HTTP/1.1`, 'Host: a.test']
          // Host counts too. The client adds Connection behind the last line.
          await raw(server.url, [
            ...head,
            ...junk((limit ?? 1_000) + beyond - 1),
            `${name}: ${value}`,
          ])
          expect(await raw(server.url, head), path).not.toContain('evil')
          expect(await raw(server.url, head), path).toContain('hit')
        }
      }
    },
  )
})

describe('the limit of fields', () => {
  it('is none if maxHeadersCount is 0, so that a request with 1 500 fields is a hit', async () => {
    const clock = new ManualClock()
    const stampede = createStampede({ clock })
    let runs = 0
    const app = appOf(() => `run ${++runs}`, { stampede, staleWhileRevalidateMs: 60_000 })
    await using server = await serve(app, { maxHeadersCount: 0 })
    const asks = () => raw(server.url, ['GET / HTTP/1.1', 'Host: a.test', ...junk(1_500)])
    expect(await asks()).toContain('run 1')
    expect(await asks()).toMatch(/; hit;.*run 1/s)
    await clock.advance(61_000)
    expect(await asks()).toMatch(/ttl=-1.*run 1/s)
    await expect.poll(asks).toMatch(/; hit; ttl=60.*run 2/s)
  })

  it.each(['Content-Length: 5', 'Transfer-Encoding: chunked'])(
    'refuses a request with an idempotency key behind it, and frees the key: %s',
    async (framing) => {
      let runs = 0
      const app = new Hono().post('/pay', idempotency({ scope: () => 'ada' }), async (c) =>
        c.text(`run ${++runs}: ${await c.req.text()}`),
      )
      await using server = await serve(app, { maxHeadersCount: 20 })
      const head = ['POST /pay HTTP/1.1', 'Host: a.test', 'Idempotency-Key: k']
      const pay = framing.startsWith('C') ? 'pay 1' : '5\r\npay 1\r\n0\r\n\r\n'
      const cut = await raw(server.url, [...head, ...junk(20), framing], pay)
      // Newer versions of Node refuse the request themselves, and drop no lines.
      if (!cut.startsWith('HTTP/1.1 431'))
        expect(cut).toMatch(/^HTTP\/1.1 400 .*application\/problem\+json.*request-ambiguous/s)
      expect(await raw(server.url, [...head, framing], pay)).toContain('run 1: pay 1')
      expect(await raw(server.url, [...head, framing], pay)).toContain('run 1: pay 1')
      expect(runs).toBe(1)
    },
  )
})
