// Variants of a URL in a fleet: after a purge or an expiry, each of them runs the handler once, in
// every order and with every history of the processes.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as after } from 'node:timers/promises'
import { createStampede, type PurgeTarget } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import { afterAll, expect, it } from 'vitest'
import { ask, burst } from '../harness/load.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server } = await redisOfFile()

const LANGUAGES = ['en', 'de', 'fr']
const PROCESSES = [0, 1, 2, 3]

/** Runs of the handlers, by page and language. */
const runs = new Map<string, number>()

/** Lifetime of the responses. */
let maxAge = 60

/** Four processes with pages that vary by language. */
async function openFleet() {
  const opened = PROCESSES.map(async () => {
    const client = new Redis(server.url, { lazyConnect: true })
    const store = redisStore(client, { commandTimeoutMs: 5_000 })
    const stampede = createStampede({ store })
    const app = express()
    app.use(stampedeCache({ stampede, ttlMs: 60_000, tags: (req) => [req.path] }))
    app.all('/page/:id', async (req, res) => {
      const language = String(req.headers['accept-language'])
      const run = `${req.path} ${language}`
      if (req.method === 'GET') runs.set(run, (runs.get(run) ?? 0) + 1)
      await after(10)
      res.set('cache-control', `max-age=${maxAge}`).vary('Accept-Language').end(language)
    })
    const listening = createServer(app).listen(0, '127.0.0.1')
    await once(listening, 'listening')
    const url = `http://127.0.0.1:${(listening.address() as AddressInfo).port}`
    return { url, stampede, stop: () => void listening.close() }
  })
  const open = await Promise.all(opened)
  return {
    open,
    async get(process: number, page: string, language = '', times = 1) {
      const options = { headers: { host: 'shop.test', 'accept-language': language } }
      const answers = await burst([`${open[process]?.url}${page}`], times, options)
      expect(new Set(answers.map(({ body }) => body))).toEqual(new Set([language]))
    },
    async [Symbol.asyncDispose]() {
      for (const { stop } of open) stop()
      await Promise.all(open.map(({ stampede }) => stampede.close()))
    },
  }
}

const fleet = await openFleet()
afterAll(() => fleet[Symbol.asyncDispose]())

/** A whole number below `limit`, the same in each run of the test. */
function seeded(seed: number): (limit: number) => number {
  let state = seed
  return (limit) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff
    return (state >> 8) % limit
  }
}

type Purge = (page: string) => PurgeTarget
const ENDS: ReadonlyArray<readonly [string, Purge | 'PUT' | 'expiry']> = [
  ['a purge of the path', (path) => ({ path })],
  ['a purge of a tag', (tag) => ({ tag })],
  ['a purge of everything', () => ({ all: true })],
  ['a soft purge of the path', (path) => ({ path })],
  ['a soft purge of a tag', (tag) => ({ tag })],
  ['PUT', 'PUT'],
  ['an expiry', 'expiry'],
]

it.each(ENDS)(
  'runs the handler once for each variant after %s, with every history',
  async (how, end) => {
    const pages = Array.from(
      { length: 6 },
      (_, seed) => `/page/${how.toLowerCase().replaceAll(' ', '-')}-${seed}`,
    )
    const { open, get } = fleet
    maxAge = end === 'expiry' ? 1 : 60
    let applied = 0
    for (const { stampede } of open) stampede.on('entry.purged', () => void applied++)
    const history = pages.map(async (page, seed) => {
      const below = seeded(seed + 1)
      // Some processes learn the page, and the others do not.
      for (let n = 0; n < 5; n++) await get(below(2 + (seed % 3)), page, LANGUAGES[below(3)])
    })
    await Promise.all(history)
    if (end === 'expiry') await after(1_100)
    else {
      const isForAll = /everything/.test(how)
      for (const page of isForAll ? pages.slice(0, 1) : pages) {
        if (end === 'PUT')
          await ask(`${open[3]?.url}${page}`, { method: 'PUT', headers: { host: 'shop.test' } })
        else await open[3]?.stampede.purge(end(page), { soft: /soft/.test(how) })
      }
      // Every process knows of every purge.
      await expect.poll(() => applied).toBe(4 * (isForAll ? 1 : pages.length))
    }
    runs.clear()
    maxAge = 60
    const later = pages.map(async (page, seed) => {
      const below = seeded(seed + 100)
      for (let n = 0; n < (seed % 2) * 6; n++) await get(below(4), page, LANGUAGES[below(3)])
      const all = PROCESSES.flatMap((process) =>
        LANGUAGES.map((each) => get(process, page, each, 3)),
      )
      await Promise.all(all)
    })
    await Promise.all(later)
    const each = pages.flatMap((page) => LANGUAGES.map((language) => `${page} ${language}`))
    expect([...runs].filter(([, count]) => count > 1)).toEqual([])
    expect([...runs.keys()].sort()).toEqual(each.sort())
  },
)
