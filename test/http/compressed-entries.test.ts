// Entries that are compressed in Redis: each request gets the response that it would get without
// `compress`, also for ranges, conditions and HEAD, and slow runs keep their leases.

import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { buffer } from 'node:stream/consumers'
import zlib from 'node:zlib'
import { createStampede } from '@stampede/core'
import { stampedeFront } from '@stampede/node-http'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { listen } from '../harness/apps.ts'
import { createGate } from '../harness/origin.ts'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()
const PAGE = Buffer.from(Array.from({ length: 5_000 }, (_, i) => `line ${i}\n`).join(''))
const MODIFIED = 'Mon, 02 Nov 2026 10:00:00 GMT'
let prefixes = 0

type Codec = 'br' | 'gzip' | 'zstd'

/** Starts processes without memory on one Redis. The first ones have `compress`. */
async function start(stores: readonly object[], body = PAGE, wait?: () => Promise<unknown>) {
  prefixes += 1
  let runs = 0
  const urls: string[] = []
  const stampedes = stores.map((store) => {
    const options = { ...PATIENT, prefix: `c${prefixes}`, ...store }
    const client = new Redis(server.url, { lazyConnect: true })
    return createStampede({ store: redisStore(client, options), l1: { maxBytes: 0 } })
  })
  for (const stampede of stampedes) {
    const origin = async (_req: unknown, res: import('node:http').ServerResponse) => {
      runs += 1
      await wait?.()
      res.setHeader('content-type', 'text/html')
      res.setHeader('etag', '"v1"')
      res.setHeader('last-modified', MODIFIED)
      res.end(body)
    }
    const cache = { stampede, ttlMs: 60_000, leaseMs: 300, waitMs: 60_000 }
    const http = await listen(stampedeFront(origin, cache))
    urls.push(`${http.url}/page`)
    onTestFinished(async () => {
      await http[Symbol.asyncDispose]()
      await stampede.close()
    })
  }
  const stored = () => expect.poll(() => stampedes[0]?.stats().fills.committed).toBe(1)
  return { urls: urls as [string, ...string[]], stampedes, runs: () => runs, stored }
}

async function ask(url: string, headers: Record<string, string> = {}, method = 'GET') {
  // One host, so that all processes have the same key.
  const sent = request(url, { agent: false, method, headers: { host: 'shop.test', ...headers } })
  sent.end()
  const [res] = (await once(sent, 'response')) as [import('node:http').IncomingMessage]
  const { date: _, age: __, 'cache-status': cache, ...fields } = res.headers
  const isHit = String(cache).includes('; hit')
  const body = await buffer(res)
  const digest = createHash('sha256').update(body).digest('hex')
  return { status: res.statusCode, fields, isHit, bytes: body.length, digest }
}

const REQUESTS: ReadonlyArray<readonly [string, Record<string, string>, string?]> = [
  ['a GET', {}],
  ['a HEAD', {}, 'HEAD'],
  ['the first byte', { range: 'bytes=0-0' }],
  ['the middle', { range: 'bytes=20000-20999' }],
  ['the end', { range: 'bytes=-7' }],
  ['all from a byte on', { range: `bytes=${PAGE.length - 1}-` }],
  ['a range beyond the end', { range: `bytes=${PAGE.length}-` }],
  ['the whole as a range', { range: 'bytes=0-' }],
  ['two ranges', { range: 'bytes=0-1,5-6' }],
  ['a range of this version', { range: 'bytes=9-99', 'if-range': '"v1"' }],
  ['a range of another version', { range: 'bytes=9-99', 'if-range': '"v0"' }],
  ['a HEAD of a range', { range: 'bytes=9-99' }, 'HEAD'],
  ['a condition that holds', { 'if-none-match': '"v1"' }],
  ['a condition that fails', { 'if-none-match': '"v0"' }],
  ['a date', { 'if-modified-since': MODIFIED }],
  ['a coding', { 'accept-encoding': 'br, gzip, zstd' }],
]

describe.each(['br', 'gzip', ...('zstdCompressSync' in zlib ? ['zstd'] : [])] as Codec[])(
  'a page that is stored as %s',
  (codec) => {
    const compress = { codec, minBytes: 0 }

    it('has the same responses as a page that is stored as it is', async () => {
      const [coded, plain] = [await start([{ compress }, {}]), await start([{}, {}])]
      for (const { urls, stored } of [coded, plain]) {
        await ask(urls[0])
        await stored()
      }
      for (const reader of [0, 1]) {
        for (const [name, headers, method] of REQUESTS) {
          const [one, other] = await Promise.all(
            [coded, plain].map(({ urls }) => ask(urls[reader] as string, headers, method)),
          )
          expect({ name, ...one }).toEqual({ name, ...other })
          expect(one?.isHit).toBe(true)
        }
      }
      expect([coded.runs(), plain.runs()]).toEqual([1, 1])
      const { bytesRaw, bytesStored } = coded.stampedes[0]?.stats().store ?? {}
      expect(Number(bytesStored)).toBeLessThan(Number(bytesRaw) / 4)
    })

    it('keeps its lease during a slow run, and wakes the other process', async () => {
      const gate = createGate()
      const { urls, stampedes, runs, stored } = await start(
        [{ compress: { ...compress, level: 9 } }, {}],
        Buffer.concat([PAGE, PAGE, PAGE, PAGE]),
        () => gate.opened,
      )
      const first = ask(urls[0])
      await expect.poll(runs).toBe(1)
      const second = ask(urls[1] as string)
      await expect.poll(() => stampedes[1]?.stats().waits.started).toBe(1)
      const lease = async () => {
        const keys = (await admin.keys(`c${prefixes}:*`)).filter((key) => key.includes('{=http:'))
        return admin.hget(keys[0] ?? '', 'lease')
      }
      expect(await lease()).not.toBe(null)
      // Two renewals: the run takes longer than a lease.
      for (const _ of [1, 2]) {
        const before = await lease()
        await expect.poll(lease, { timeout: 20_000 }).not.toBe(before)
      }
      gate.open()
      const [one, other] = await Promise.all([first, second])
      expect(other.digest).toBe(one.digest)
      await stored()
      expect(runs()).toBe(1)
      expect(stampedes[0]?.stats().fills.fenced).toBe(0)
    })
  },
)
