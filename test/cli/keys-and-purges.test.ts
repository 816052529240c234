// `stampede keys`, `purge --dry-run` and `why --curl` on a real Redis.

import { createStampede, type Stampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { listen, type RunningApp } from '../harness/apps.ts'
import { commandLine } from '../harness/command-line.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()
const run = commandLine(server.url)
const LONG = 'k'.repeat(2_000)

let stampede: Stampede
let url: string
let listening: RunningApp

beforeEach(async () => {
  await admin.flushall()
  const client = new Redis(server.url, { lazyConnect: true })
  stampede = createStampede({ store: redisStore(client, { commandTimeoutMs: 2_000 }) })
  const app = express().use(stampedeCache({ stampede, ttlMs: 60_000, tags: (req) => [req.path] }))
  app.get(/.*/, (req, res) => {
    if (req.path === '/varied') res.vary('accept-language')
    res.send(`page for ${req.get('accept-language')}`)
  })
  listening = await listen(app)
  url = listening.url
})
afterEach(async () => {
  await listening[Symbol.asyncDispose]()
  await stampede.close()
})

const ask = async (path: string, language = 'de') =>
  void (await (await fetch(url + path, { headers: { 'accept-language': language } })).text())
const fill = (key: string, ttlMs = 60_000) =>
  stampede.getOrSet(key, () => 1, { ttlMs, tags: ['data'], keepMs: 60_000 })

describe('keys', () => {
  const keysOf = async (...args: string[]) => JSON.parse((await run('keys', ...args, '--json')).out)

  beforeEach(async () => {
    for (const key of ['rates:eur', 'rates:usd', 'user:7', LONG]) await fill(key)
    for (const language of ['de', 'en', 'fr']) await ask('/varied?x=1', language)
    await ask('/plain')
  })

  it('lists the keys that match a pattern, with the number of their variants', async () => {
    expect(await keysOf('rates:*')).toEqual({
      keys: [
        { key: 'rates:eur', variants: 0 },
        { key: 'rates:usd', variants: 0 },
      ],
      more: 0,
      hashed: 1,
    })
    const varied = { key: `GET ${url}/varied?x=1`, variants: 2 }
    expect((await keysOf(`${url}/varied*`)).keys).toEqual([varied])
    expect((await keysOf('GET *?x=?')).keys).toEqual([varied])
    expect((await keysOf('rates')).keys).toEqual([])
  })

  it('says how many keys matched beyond --limit, and how many have only a hash', async () => {
    const { out, code } = await run('keys', '--limit', '2')
    expect(code).toBe(0)
    expect(out.split('\n').filter((line) => /^(GET|rates|user)/.test(line))).toHaveLength(2)
    expect(out).toContain('3 more keys matched. Raise --limit')
    expect(out).toContain('1 long key left out: Redis has only hashes')
  })

  it('says that no key matches, and refuses a wrong limit', async () => {
    expect((await run('keys', 'none')).out).toMatch(/^No key matches\..*now stampede/)
    for (const limit of ['0', '1.5', 'x'])
      expect((await run('keys', '--limit', limit)).code).toBe(2)
  })
})

describe('purge --dry-run', () => {
  const dry = async (...args: string[]) => {
    const { code, out } = await run('purge', ...args, '--dry-run', '--json')
    expect(code).toBe(0)
    const { purged, entries, unreadable } = JSON.parse(out)
    expect([purged, unreadable]).toEqual([false, 0])
    return entries
  }

  it.each([
    [['--key', 'rates:eur'], 1],
    [['--key', LONG], 1],
    [['--key', 'none'], 0],
    [['--tag', 'data'], 3],
    [['--tag', '/varied'], 3],
    [['--path', '/varied'], 3],
    [['--path', '/Varied/', '--host', 'other.example'], 0],
    [['--route', '/:page'], 4],
    [['--all'], 7],
    [['--all', '--soft'], 7],
  ])('counts the entries of %s and purges none: %s', async (target, expected) => {
    for (const key of ['rates:eur', 'rates:usd', LONG]) await fill(key)
    for (const language of ['de', 'en', 'fr']) await ask('/varied?x=1', language)
    await ask('/plain')
    expect(await dry(...target)).toBe(expected)
    expect(await dry(...target)).toBe(expected)
  })

  it('counts what a purge then drops, and nothing twice', async () => {
    for (const key of ['a', 'b']) await fill(key)
    expect(await dry('--tag', 'data')).toBe(2)
    expect((await run('purge', '--tag', 'data')).code).toBe(0)
    expect(await dry('--tag', 'data')).toBe(0)
    expect(await dry('--all')).toBe(0)
  })

  it('counts no stale entry for a soft purge, by the clock of Redis', async () => {
    await fill('fresh')
    await fill('short', 1)
    await expect.poll(() => dry('--all', '--soft')).toBe(1)
    expect(await dry('--all')).toBe(2)
    await run('purge', '--tag', 'data', '--soft')
    expect(await dry('--all', '--soft')).toBe(0)
    expect(await dry('--all')).toBe(2)
  })

  it('does not count by the clock of this machine', async () => {
    await fill('fresh')
    const now = Date.now
    try {
      for (const skewMs of [-86_400_000, 86_400_000]) {
        Date.now = () => now() + skewMs
        expect(await dry('--all', '--soft')).toBe(1)
      }
    } finally {
      Date.now = now
    }
  })

  it('says that nothing was purged, and needs no confirmation', async () => {
    await fill('a')
    const { out } = await run('purge', '--all', '--dry-run')
    expect(out).toBe('Every entry: 1 entry would be purged. Nothing was purged.\n')
    const soft = await run('purge', '--tag', 'x', '--dry-run', '--soft')
    expect(soft.out).toContain('0 entries would become stale.')
    expect((await run('purge', '--route', 'x', '--dry-run')).code).toBe(2)
  })
})

describe('why --curl', () => {
  const answerTo = async (...args: string[]) => {
    const { code, out } = await run('why', ...args)
    expect(code).toBe(0)
    return out.trimEnd().split('\n').at(-1)
  }

  it('finds the entry of the request that the command sends', async () => {
    await ask('/varied?x=1', 'en')
    await ask('/varied?x=1', 'de')
    const hit = await answerTo('--curl', `curl '${url}/varied?x=1' -H 'accept-language: de' -sS`)
    expect(hit).toContain('is a hit')
    const other = `curl '${url}/varied' -G -d x=1 -H $'accept-language: \\x66r' --compressed`
    expect(await answerTo('--curl', other)).toContain('its URL has variants: accept-language: en')
  })

  it('says that the cache is bypassed, with the fix and its page', async () => {
    const cookie = await answerTo('--curl', `curl ${url}/plain -b '_ga=1'`)
    expect(cookie).toMatch(
      /runs the handler: cookie; .*cookies: 'ignore'.*why-nothing.*#cookies\.$/,
    )
    const ignored = await answerTo('--curl', `curl ${url}/plain -b '_ga=1'`, '--cookies', 'ignore')
    expect(ignored).toContain('is a miss')
    expect(await answerTo('--curl', `curl ${url}/plain -d ''`)).toContain('handler: method; send')
    expect(await answerTo('--curl', `curl -XGET ${url}/plain -d 1`)).toContain('request-body')
  })

  it('notes the files that it does not read', async () => {
    const { out } = await run('why', '--curl', `curl ${url}/plain -b jar`)
    expect(out).toContain('Note: the cookies of the file jar are not read')
  })

  it('needs either a URL or a command', async () => {
    expect((await run('why')).code).toBe(2)
    expect((await run('why', url, '--curl', `curl ${url}`)).code).toBe(2)
    expect((await run('why', '--curl', 'wget x')).code).toBe(2)
    expect((await run('why', '--curl', '-')).err).toContain('begin with curl')
  })
})
