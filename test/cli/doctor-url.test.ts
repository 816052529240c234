// `stampede doctor --url`: what it says about running apps.

import type { RequestListener } from 'node:http'
import { createStampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import express, { type RequestHandler } from 'express'
import { describe, expect, it } from 'vitest'
import { listen } from '../harness/apps.ts'
import { commandLine } from '../harness/command-line.ts'
import { freePort } from '../harness/free-port.ts'

// No Redis is there: the app may have its cache in memory.
const run = commandLine('redis://127.0.0.1:1')

async function doctor(listener: RequestListener, ...args: string[]) {
  await using app = await listen(listener)
  return await run('doctor', '--url', `${app.url}/page?x=1`, ...args)
}

async function withCache(options: object, handler: RequestHandler, ...args: string[]) {
  const stampede = createStampede()
  const app = express().use(stampedeCache({ stampede, ttlMs: 60_000, ...options }))
  try {
    return await doctor(app.get('/page', handler), ...args)
  } finally {
    await stampede.close()
  }
}

const page: RequestHandler = (_req, res) => void res.send('page')
const COOKIE = ['--header', 'cookie: _ga=1']

describe('doctor --url', () => {
  it('shows each request with its Cache-Status, and ends at the first hit', async () => {
    const { code, out } = await withCache({}, page)
    expect(code).toBe(0)
    const [first, second, result, ...rest] = out.trimEnd().split('\n')
    expect(first).toMatch(
      /^OK +request 1 +200 in .*, Cache-Status: Stampede; fwd=uri-miss;.* stored$/,
    )
    expect(second).toMatch(/^OK +request 2 +200 in .*, Cache-Status: Stampede; hit; ttl=\d+$/)
    expect(result).toMatch(/^OK +result +the response is cached: request 2 is a hit$/)
    expect(rest).toEqual([])
  })

  it.each<[reason: string, section: string, options: object, handler: RequestHandler, ...string[]]>(
    [
      ['cookie', 'cookies', {}, page, ...COOKIE],
      ['set-cookie', 'set-cookie-and-sessions', {}, (_, res) => void res.cookie('a', 'b').send('')],
      ['no-freshness', 'response-is-not-stored', { ttlMs: undefined }, page],
      [
        'private',
        'cache-control-of-the-response',
        {},
        (_, res) => void res.set('cache-control', 'private').send(''),
      ],
      ['status', 'statuses', {}, (_, res) => void res.redirect('/login')],
      ['server-error', 'response-is-not-stored', {}, (_, res) => void res.status(500).send('')],
    ],
  )('says for the reason %s what would make the response a hit', async (...row) => {
    const [reason, section, options, handler, ...args] = row
    const { code, out } = await withCache(options, handler, ...args)
    expect(code).toBe(1)
    const lines = out.trimEnd().split('\n')
    expect(lines).toHaveLength(4)
    expect(lines.at(-1)).toMatch(/^WARN +result +the response is not cached: /)
    expect(lines.at(-1)).toContain(`cached: ${reason}. Fix: `)
    expect(lines.at(-1)).toContain(`why-nothing-is-cached.md#${section}`)
    if (reason === 'status') expect(lines.at(-1)).toContain('ask for /login')
  })

  it('says that each response is stored without a hit', async () => {
    let count = 0
    const { code, out } = await withCache({ key: () => String(count++) }, page)
    expect(code).toBe(1)
    expect(out).toMatch(/result +each response is stored, and none is a hit.*#stored-but-never/)
  })

  it('says that an app without a cache sends no Cache-Status', async () => {
    const { code, out } = await doctor((_req, res) => res.end('page'))
    expect(code).toBe(1)
    expect(out).toMatch(/^FAIL +result +the cache did not see the request.*#no-cache-status$/m)
  })

  it('takes Age for a hit if the cache sends no Cache-Status', async () => {
    const { code, out } = await withCache({ cacheStatus: false }, page)
    expect([code, out]).toEqual([0, expect.stringContaining('request 2 is a hit')])
  })

  it('reads the member of the app, not that of a proxy in front', async () => {
    const field = 'Stampede; fwd=bypass; detail=cookie, "CDN, Inc"; fwd=uri-miss; key="a, x; hit"'
    const { out } = await doctor((_req, res) => res.setHeader('cache-status', field).end('page'))
    expect(out).toContain('the response is not cached: cookie.')
  })

  it('has exit code 3 if the app refuses connections, or does not end its response', async () => {
    const { code, out } = await run('doctor', '--url', `http://127.0.0.1:${await freePort()}/`)
    expect([code, out]).toEqual([3, expect.stringMatching(/^FAIL +request 1 .*ECONNREFUSED/)])
    const hanging = await doctor((_req, res) => void res.write('begin'), '--timeout', '200')
    expect(hanging.code).toBe(3)
    expect(hanging.out).toContain('no complete response within 200 ms')
  })

  it('prints JSON, and refuses a text that is no URL', async () => {
    const { findings } = JSON.parse((await withCache({}, page, '--json')).out)
    expect(findings.at(-1)).toMatchObject({ level: 'ok', check: 'result' })
    expect((await run('doctor', '--url', 'localhost:3000')).code).toBe(2)
  })
})
