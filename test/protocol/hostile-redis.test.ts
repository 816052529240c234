// Hostile data in Redis, in place of a page or as messages: a request gets the right response or a
// miss, and the fleet continues.

import { createStampede, type Stampede } from '@stampede/core'
import { forgeFrame, runs, toHeaders, turnBit, withChecksum } from '@stampede/core/testing'
import { stampedeCache } from '@stampede/express'
import { createLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { decodeFrame } from '../../packages/core/src/entry/frame.ts'
import {
  rawRequest,
  serve,
  type TestServer,
} from '../../packages/node-http/src/testing/raw-client.ts'
import { PATIENT } from '../harness/patient.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'

let server: RedisServer
let admin: Redis
let stampede: Stampede
let app: TestServer
let ran = 0

const RECORDS = 't:4:{=http:*'
const PAGE = '<p>page</p>'
const HEADERS = { 'content-type': 'text/html', 'x-a': 'one', etag: '"1"', vary: 'x-lang' }

beforeAll(async () => {
  server = await startRedis()
  admin = new Redis(server.url)
  const store = redisStore(new Redis(server.url, { lazyConnect: true }), {
    prefix: 't',
    ...PATIENT,
  })
  // Without L1, so that each request reads the record in Redis.
  stampede = createStampede({ store, l1: { maxBytes: 0 } })
  const listener = express().disable('x-powered-by')
  const options = { stampede, ttlMs: 3_600_000, waitMs: 100, jitter: 0 }
  listener.use(stampedeCache(options)).get('/page', (_req, res) => {
    ran += 1
    res.set(HEADERS).end(PAGE)
  })
  app = await serve(listener)
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await stampede.close()
  admin.disconnect()
  await server.stop()
})

/**
 * Waits for the fill: a client has its response before the entry is stored, and the commit would
 * overwrite planted data.
 */
async function quiet(): Promise<void> {
  while (stampede.stats().active.flights > 0) await new Promise((resolve) => setImmediate(resolve))
}

/** Stores the page, and returns its record. */
async function stored(): Promise<{ key: string; fields: Record<string, Buffer> }> {
  await quiet()
  // The purge log stays. After its loss, the next heartbeat would make the page outdated.
  for (const name of await admin.keys(RECORDS)) await admin.del(name)
  await rawRequest(app.port, '/page')
  await quiet()
  const [key = ''] = (await admin.keys(RECORDS)).filter((each) => each.includes('/page'))
  const fields = (await admin.hgetallBuffer(key)) as Record<string, Buffer>
  expect(String(fields.frame)).toContain(PAGE)
  return { key, fields }
}

/** A short key stands in the name of its record. */
const coreKey = (record: string) => record.slice('t:4:{='.length, -1)

/**
 * Requests the page: it is a miss, or exactly what the planted frame says. `key` is the key that
 * the frame names.
 */
async function expectRight(key: string, planted: Buffer, what: string): Promise<'hit' | 'miss'> {
  const before = ran
  const { head, body } = await rawRequest(app.port, '/page')
  if (ran > before) {
    expect([head[0], body], what).toEqual(['HTTP/1.1 200 OK', PAGE])
    return 'miss'
  }
  const readable = decodeFrame(key, planted)
  if (readable?.type !== 'response') throw new Error(`${what}: answered with what cannot be read`)
  const status = Number(head[0]?.split(' ')[1])
  expect(status, what).toBe(readable.status)
  const names = head.slice(1).map((line) => line.split(':', 1)[0]?.toLowerCase() ?? '')
  const known = toHeaders(readable.fields).map(([name]) => name)
  const ours = ['age', 'cache-status', 'content-length', 'connection']
  for (const name of names) expect([...known, ...ours], what).toContain(name)
  const sent = status === 204 || status === 304 ? '' : Buffer.from(readable.body).toString('latin1')
  expect(body, what).toBe(sent)
  return 'hit'
}

describe('a stored page', () => {
  it('is a miss or unchanged after it was truncated, extended, or changed in any byte', async () => {
    const { key, fields } = await stored()
    const { frame = Buffer.alloc(0) } = fields
    const seen = { hit: 0, miss: 0 }
    const plant = async (bytes: Buffer, what: string) => {
      await quiet()
      await admin.hset(key, { ...fields, frame: bytes })
      const came = await expectRight(coreKey(key), bytes, what)
      seen[came] += 1
      return came
    }
    await plant(frame, 'as it was')
    expect(seen).toEqual({ hit: 1, miss: 0 })
    for (let length = 0; length < frame.length; length += 3) {
      await plant(frame.subarray(0, length), `the first ${length} bytes`)
    }
    let state = runs(1).seed
    for (let at = 0; at < frame.length; at++) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      const changed = turnBit(frame, 8 * at + (state >>> 29))
      const what = `bit ${state >>> 29} of byte ${at}`
      // With a wrong checksum the frame is never served. With a right one, the response is what the
      // frame says.
      expect(await plant(changed, what), what).toBe('miss')
      await plant(withChecksum(changed), `${what}, with its checksum`)
    }
    for (const [at, length] of [
      [8, 0xff_ff_ff_ff],
      [12, 0xff_ff_ff_ff],
      [8, 0],
      [12, 0],
    ] as const) {
      const changed = Buffer.from(frame)
      changed.writeUInt32BE(length, at)
      await plant(withChecksum(changed), `${length} at ${at}`)
    }
    await plant(Buffer.concat([frame, frame]), 'twice')
    const long = Buffer.concat([frame, Buffer.alloc(1024 * 1024)])
    await plant(withChecksum(long), 'with a megabyte behind it')
    const digest = turnBit(frame.subarray(16, 24), 0)
    const head = frame.toString('utf8', 24, frame.length - PAGE.length)
    expect(await plant(forgeFrame(head, { body: PAGE, digest }), 'of another key')).toBe('miss')
    // Both outcomes occur, so the planted frames are really read.
    expect(seen.miss).toBeGreaterThan(100)
    expect(seen.hit).toBeGreaterThan(10)
    expect(stampede.stats().store.failures).toBe(0)
  })

  it('leads to a correct response when any two fields of its record are exchanged', async () => {
    const { key, fields } = await stored()
    const names = [...Object.keys(fields), 'last', 'waiting', 'group', 'variants']
    for (const [i, one] of names.entries()) {
      for (const other of names.slice(i + 1)) {
        await quiet()
        await admin.del(key)
        const exchanged = { ...fields, [one]: fields[other] ?? '', [other]: fields[one] ?? '' }
        await admin.hset(key, exchanged)
        const { head, body } = await rawRequest(app.port, '/page')
        expect([head[0], body], `${one} and ${other}`).toEqual(['HTTP/1.1 200 OK', PAGE])
      }
    }
  })
})

describe('hostile messages on our channels', () => {
  it('change no response and grant no lock, on any channel', async () => {
    const client = new Redis(server.url, { lazyConnect: true })
    const locks = createLocks({ store: redisStore(client, { prefix: 't', ...PATIENT }) })
    const first = await locks.acquire('lock', { leaseMs: 60_000 })
    const waiting = locks.acquire('lock', { waitMs: 20_000 })
    const channels = (await admin.call('PUBSUB', 'CHANNELS', 't:4:*')) as string[]
    expect(channels.filter((each) => /wake|grant|log|settled/.test(each)).length).toBeGreaterThan(4)
    let state = runs(1).seed
    const next = (below: number) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      return (state >>> 8) % below
    }
    const now = Date.now()
    const known = [
      ...['', 'k', 'd:=k', '1 0 kh*', '9 9 kh', `${now * 1000} 0 mh*`, '8999999999999999 1 khd:=k'],
      ...[
        '9'.repeat(17),
        'x',
        'x a 1 2 3 4 5 6 7 8 9\n',
        `x a 1 2 ${now} 9999999 0 0 0 9999999 4\nd:=k{`,
      ],
      ...['token 1 99999999999999 lock', `${'t'.repeat(24)} 5 ${now + 60_000} lock`, 'si:k', '\0'],
    ]
    for (const channel of channels) {
      for (let i = 0; i < 60; i++) {
        const random = Buffer.from(Array.from({ length: next(40) }, () => next(256)))
        await admin.publish(channel, i < known.length ? (known[i] ?? '') : random)
      }
      await admin.publish(channel, Buffer.alloc(1024 * 1024, 120))
    }
    const get = () => stampede.getOrSet('k', () => 'made', { ttlMs: 60_000 })
    expect(await get()).toBe('made')
    expect((await rawRequest(app.port, '/page')).body).toBe(PAGE)
    // The waiter did not get the lock while the first holder has it.
    first.assertHeld()
    await first.release()
    const second = await waiting
    expect(second.fence > first.fence).toBe(true)
    await second.release()
    await locks.close()
    client.disconnect()
  })
})
