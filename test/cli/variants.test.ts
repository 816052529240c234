// `stampede why` and `get` for URLs whose responses are stored for variants, or under the option
// `key`: a real app, a real Redis, and the program.

import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { createStampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import { stampedeFront } from '@stampede/node-http'
import { observe } from '@stampede/operate'
import { redisStore } from '@stampede/redis'
import express, { type Request } from 'express'
import { Redis } from 'ioredis'
import { beforeEach, describe, expect, it } from 'vitest'
import { listen } from '../harness/apps.ts'
import { commandLine } from '../harness/command-line.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()
const run = commandLine(server.url)

beforeEach(() => admin.flushall())

interface Case {
  readonly options: object
  /** Fields of the request that fills the cache. */
  readonly headers: Record<string, string>
  readonly vary?: string
  /** Arguments that describe that request. */
  readonly described: readonly string[]
  /** The variant in the answer for the URL alone. */
  readonly named: string
}

const sid = (req: Request) => String(req.headers.cookie ?? 'guest')
const DE = { 'accept-language': 'de' }
const CASES: Readonly<Record<string, Case>> = {
  'the field Vary': {
    options: {},
    headers: DE,
    vary: 'accept-language',
    described: ['--header', 'accept-language: de'],
    named: 'accept-language: de',
  },
  'the option vary': {
    options: { vary: ['accept-language'] },
    headers: DE,
    described: ['--vary', 'accept-language:de'],
    named: 'accept-language: de',
  },
  'the option cookies': {
    options: { cookies: { key: ['lang'] } },
    headers: { cookie: 'lang=de' },
    described: ['--cookies', 'key:lang', '--header', 'cookie: lang=de'],
    named: 'cookie lang=de',
  },
  'the option identity': {
    options: { identity: sid },
    headers: { cookie: 'sid=ann' },
    described: ['--identity', 'sid=ann'],
    named: 'identity sid=ann',
  },
  'the option key': {
    options: { key: (req: Request) => `page ${req.path}` },
    headers: {},
    described: ['--key', 'page /a'],
    named: 'page /a',
  },
  'a forwarded host': {
    options: {},
    headers: { 'x-forwarded-host': 'shop.example' },
    described: ['--header', 'x-forwarded-host: shop.example'],
    named: 'x-forwarded-host: shop.example',
  },
  'cookies, identity and Vary together': {
    options: { cookies: { key: ['lang', 'theme'] }, identity: sid },
    headers: { cookie: 'lang=de', ...DE },
    vary: 'accept-language',
    described: [
      ...['--cookies', 'key:lang,theme', '--header', 'cookie: lang=de', '--identity', 'lang=de'],
      ...['--header', 'accept-language: de'],
    ],
    named: 'cookie lang=de, cookie theme (absent), identity lang=de',
  },
}

/** Runs an app whose page has been asked for, and which has published its report or not. */
async function withApp(
  { options, headers, vary }: Case,
  isReporting: boolean,
  act: (url: string, again: (headers: Record<string, string>) => Promise<void>) => Promise<void>,
): Promise<void> {
  const client = new Redis(server.url, { lazyConnect: true })
  const stampede = createStampede({ store: redisStore(client, { commandTimeoutMs: 2_000 }) })
  const observer = observe(stampede)
  const app = express()
  app.use(stampedeCache({ stampede, ttlMs: 60_000, ...options }))
  app.get('/a', (_req, res) => {
    if (vary !== undefined) res.vary(vary)
    res.send('page')
  })
  await using listening = await listen(app)
  const url = `${listening.url}/a`
  const request = async (fields: Record<string, string>) => {
    const ask = async () => (await fetch(url, { headers: fields })).headers.get('cache-status')
    await ask()
    await expect.poll(ask).toContain('hit')
    if (isReporting) await observer.operator.report('one', observer.reportText(), 60_000)
  }
  try {
    await request(headers)
    await act(url, request)
  } finally {
    observer.close()
    await stampede.close()
  }
}

const lastLine = (out: string): string => out.trimEnd().split('\n').at(-1) ?? ''
const WRONG = /expired|evicted|nothing is stored/

describe.each(Object.entries(CASES))('with %s', (_name, each) => {
  it.each([true, false])(
    'why names the variants for the URL alone, and the hit for the whole request, with reports: %s',
    async (isReporting) => {
      await withApp(each, isReporting, async (url) => {
        const { code, out } = await run('why', url)
        expect(code).toBe(0)
        expect(lastLine(out)).not.toMatch(WRONG)
        const isNamed = isReporting || each.options === CASES['the field Vary']?.options
        if (isNamed || each.named.startsWith('page')) expect(lastLine(out)).toContain(each.named)
        else expect(lastLine(out)).toContain('its URL has variants')
        const whole = await run('why', url, ...each.described)
        expect(lastLine(whole.out)).toMatch(/is a hit: the response was stored/)
      })
    },
  )

  it('get finds the entry of the whole request, and has exit code 1 for the URL without one', async () => {
    await withApp(each, true, async (url) => {
      const whole = await run('get', url, ...each.described)
      expect(whole.out).toMatch(/^stored +response 200, 4 B, fresh$/m)
      expect(whole.code).toBe(0)
      const alone = await run('get', url)
      // The first response of a URL with `Vary` alone is under the URL itself.
      if (each === CASES['the field Vary']) return
      expect(alone.code).toBe(1)
      for (const part of each.named.split(', ')) expect(alone.out).toContain(part)
      const { code, out } = await run('get', url, '--json')
      expect(code).toBe(1)
      expect(JSON.stringify(JSON.parse(out).variants)).toContain(each.named)
    })
  })
})

describe('get and why', () => {
  const ROWS: ReadonlyArray<readonly [lines: readonly string[], path: string, ...args: string[]]> =
    [
      [['GET /a/../b HTTP/1.1', 'Host: shop.test'], '/a/../b'],
      [['GET /a/%2e%2e/c HTTP/1.1', 'Host: shop.test'], '/a/%2e%2e/c'],
      [['GET /a{b}|^ HTTP/1.1', 'Host: shop.test'], '/a{b}|^'],
      [[`GET /q?q=it's"<x>" HTTP/1.1`, 'Host: shop.test'], `/q?q=it's"<x>"`],
      [['GET /q?q=it%27s HTTP/1.1', 'Host: shop.test'], "/q?q=it's"],
      [['GET /caf%C3%A9%20x HTTP/1.1', 'Host: shop.test'], '/café x'],
      [['GET /a HTTP/1.1', 'Host: Shop.Test'], '/a', '--host', 'Shop.Test'],
      [
        ['GET /l HTTP/1.1', 'Host: shop.test', 'Accept-Language: de', 'Accept-Language: en'],
        '/l',
        ...['--header', 'accept-language: de', '--header', 'accept-language: en'],
      ],
      [
        ['GET /c HTTP/1.1', 'Host: shop.test', 'Cookie: lang=de', 'Cookie: tone=1'],
        '/c',
        ...['--cookies', 'key:lang,tone'],
        ...['--header', 'cookie: lang=de', '--header', 'cookie: tone=1'],
      ],
    ]

  it('find the entry of a request as it was sent', async () => {
    const client = new Redis(server.url, { lazyConnect: true })
    const stampede = createStampede({ store: redisStore(client, { commandTimeoutMs: 2_000 }) })
    const cookies = { key: ['lang', 'tone'] }
    const front = stampedeFront(
      (_req, res) => res.setHeader('Vary', 'accept-language').end('page'),
      {
        ...{ stampede, cookies, ttlMs: 60_000 },
      },
    )
    await using listening = await listen(front)
    const port = Number(new URL(listening.url).port)
    await Promise.all(
      ROWS.map(async ([lines, path, ...args]) => {
        const ask = async () => {
          const socket = connect(port, '127.0.0.1')
          socket.write(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`)
          return text(socket)
        }
        await ask()
        await expect.poll(ask, { message: lines[0] ?? '' }).toContain('hit;')
        const keyed = args.includes('--cookies') ? args : [...args, '--cookies', 'key:lang,tone']
        const { code, out } = await run('get', `HTTP://shop.test${path}`, ...keyed)
        expect([code, out], lines[0]).toEqual([0, expect.stringContaining('4 B, fresh')])
      }),
    )
    await stampede.close()
  })
})

describe('why', () => {
  it('finds a variant of Vary without its URL having an entry of its own', async () => {
    await withApp(CASES['the field Vary'] as Case, true, async (url, again) => {
      await again({ 'accept-language': 'en' })
      const en = ['--header', 'accept-language: en']
      expect(lastLine((await run('why', url, ...en)).out)).toContain('is a hit')
      const { out } = await run('why', url)
      expect(lastLine(out)).toContain('accept-language: en')
      expect(lastLine(out)).toContain('accept-language: de')
      const fr = await run('why', url, '--header', 'accept-language: fr')
      expect(lastLine(fr.out)).toContain('is a miss as described, but its URL has variants')
    })
  })

  it('says that the variants were purged, not that they expired', async () => {
    await withApp(CASES['the option identity'] as Case, true, async (url) => {
      await run('purge', '--path', '/a')
      const { out } = await run('why', url)
      expect(lastLine(out)).not.toMatch(WRONG)
    })
  })
})
