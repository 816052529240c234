// Compressed bodies in Redis: processes with and without `compress` read the entries of each other,
// and clients get the same bytes.

import { createHash, randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { createStampede, type Stampede } from '@stampede/core'
import { namedKeys } from '@stampede/core/operator'
import { type Clock, systemClock } from '@stampede/core/store'
import { forgeFrame, keyDigest, turnBit, withChecksum } from '@stampede/core/testing'
import { stampedeCache } from '@stampede/express'
import { entryFacts } from '@stampede/operate'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { asLines } from '../../packages/cli/src/records.ts'
import { codecOf, decodeFrame, encodeFrame } from '../../packages/core/src/entry/frame.ts'
import { rawRequest, serve } from '../../packages/node-http/src/testing/raw-client.ts'
import { LIFETIMES, openBareStore, record, sentMeanwhile } from '../harness/bare-store.ts'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()
const PREFIX = 't'
const KEY = `${PREFIX}:4:{=d:=k}`
const ROWS = Array.from({ length: 1_000 }, (_, id) => ({ id, name: `Sencha ${id}`, cents: 450 }))
const TTL = { ttlMs: 3_600_000, jitter: 0 }

let open: Stampede[] = []
beforeEach(() => admin.flushall())
afterEach(async () => {
  await Promise.all(open.map((stampede) => stampede.close()))
  open = []
})

function storeWith(compress: boolean | object) {
  const redis = new Redis(server.url, { lazyConnect: true })
  return redisStore(redis, { prefix: PREFIX, compress, ...PATIENT })
}

/** A process without L1, so that each call reads Redis. */
function start(compress: boolean | object = true): Stampede {
  const stampede = createStampede({ store: storeWith(compress), l1: { maxBytes: 0 }, clock: CLOCK })
  open.push(stampede)
  return stampede
}

/** A clock on which a compression in the thread pool of a busy machine is never late. */
const CLOCK: Clock = {
  ...systemClock,
  setTimer: (ms, callback) => systemClock.setTimer(ms === 50 ? 60_000 : ms, callback),
}

const noFactory = () => {
  throw new Error('the entry was not read')
}

/** Waits for the commit, which comes after the response. */
async function quiet(stampede: Stampede): Promise<void> {
  await expect.poll(() => stampede.stats().active.flights, { interval: 2 }).toBe(0)
}

async function frameIn(record: string): Promise<Buffer> {
  const frame = await admin.hgetBuffer(record, 'frame')
  if (frame === null) throw new Error(`${record} has no frame`)
  return frame
}

describe('a value in Redis', () => {
  it.each([true, { codec: 'gzip' }])(
    'is compressed with compress %j, and read by processes with and without the option',
    async (compress) => {
      const [writer, reader, plain] = [start(compress), start({ codec: 'br' }), start(false)]
      expect(await writer.getOrSet('k', () => ROWS, TTL)).toEqual(ROWS)
      await quiet(writer)
      const frame = await frameIn(KEY)
      const bytes = JSON.stringify(ROWS).length
      expect([frame[1], codecOf(frame)]).toEqual([4, compress === true ? 'br' : 'gzip'])
      expect(frame.length).toBeLessThan(bytes / 3)
      for (const stampede of [writer, reader, plain]) {
        expect(await stampede.getOrSet('k', noFactory, TTL)).toEqual(ROWS)
      }
      const { bytesRaw, bytesStored } = writer.stats().store
      expect(bytesStored).toBe(frame.length)
      expect(bytesRaw - bytes).toBeLessThan(200)
      expect(reader.stats().store).toMatchObject({ bytesRaw: 0, bytesStored: 0 })
    },
  )

  it('is not compressed without the option, and is read by a process with it', async () => {
    const [plain, reader] = [start(false), start()]
    await plain.getOrSet('k', () => ROWS, TTL)
    await quiet(plain)
    const frame = await frameIn(KEY)
    expect([frame[1], codecOf(frame)]).toEqual([3, undefined])
    expect(await reader.getOrSet('k', noFactory, TTL)).toEqual(ROWS)
    const { bytesRaw, bytesStored } = plain.stats().store
    expect([bytesRaw, bytesStored]).toEqual([frame.length, frame.length])
  })

  it('is filled anew if its compressed bytes were changed, and never read wrong', async () => {
    const stampede = start()
    await stampede.getOrSet('k', () => ROWS, TTL)
    await quiet(stampede)
    const fields = await admin.hgetallBuffer(KEY)
    const frame = await frameIn(KEY)
    const changed = [
      frame.subarray(0, -1),
      ...[0, 1, 2, 6, 7, 9, 13, 20, 40, 100, frame.length - 1].map((at) => turnBit(frame, 8 * at)),
      // With a checksum, as a hostile writer would plant them.
      withChecksum(Buffer.concat([frame.subarray(0, 7), Buffer.from([1]), frame.subarray(8)])),
      withChecksum(Buffer.concat([frame.subarray(0, 7), Buffer.from([9]), frame.subarray(8)])),
      withChecksum(Buffer.from(frame.toString('latin1').replace(/"z":\d/, '"z":9'), 'latin1')),
    ]
    for (const bytes of changed) {
      await admin.hset(KEY, { ...fields, frame: bytes })
      expect(await stampede.getOrSet('k', () => ROWS, TTL)).toEqual(ROWS)
      await quiet(stampede)
      expect(decodeFrame('d:=k', await frameIn(KEY))).toBeDefined()
    }
    expect(stampede.stats().fills.committed).toBe(1 + changed.length)
  })

  it('is shown to an operator decoded, with its codec', async () => {
    const store = storeWith(true)
    const stampede = createStampede({ store, l1: { maxBytes: 0 }, clock: CLOCK })
    open.push(stampede)
    await stampede.getOrSet('k', () => ROWS, TTL)
    await quiet(stampede)
    const [key] = namedKeys('k')
    const info = await store.operator.inspect(key)
    const facts = info && (await entryFacts(stampede, info))
    expect(facts).toMatchObject({ type: 'value', encoding: 'json', compressed: 'br' })
    expect(JSON.parse(String(facts?.body))).toEqual(ROWS)
    const lines = asLines({ key, state: 'fresh', info, facts })
    expect(lines.join('\n')).toMatch(
      /stored +value \(json\), [\d.]+ [kK]i?B \(br in Redis\), fresh/,
    )
  })
})

describe('a wake-up message', () => {
  it('carries the compressed entry, which would be too long without compression', async () => {
    const wakes: string[] = []
    const onWake = (key: string) => void wakes.push(key)
    const filler = openBareStore(server.url, { clock: CLOCK }, PATIENT.commandTimeoutMs, true)
    const waiter = openBareStore(server.url, { onWake })
    const body = Buffer.from(JSON.stringify(ROWS))
    const provenance = { asOf: 0, tookMs: 0, subjects: [] }
    const frame = encodeFrame('k', { type: 'value', encoding: 'json', body, provenance })
    expect(frame.length).toBeGreaterThan(32 * 1024)
    const request = { token: 'filler', leaseMs: 20_000 }
    const reply = await filler.lookup('k', request)
    if (reply.status !== 'leased') throw new Error(reply.status)
    expect(await waiter.lookup('k', { ...request, token: 'w' })).toMatchObject({ status: 'busy' })
    expect(await filler.commit(reply.grant, frame, LIFETIMES, false)).toBe('committed')
    await expect.poll(() => wakes, { interval: 2 }).toEqual(['k'])
    let woken: Awaited<ReturnType<typeof waiter.lookup>> | undefined
    const sent = await sentMeanwhile(server, async () => {
      woken = await waiter.lookup('k', { ...request, token: 'w' })
    })
    expect(sent).toEqual({ hmget: 0, time: 0, scripts: 0 })
    const delivered = (woken && 'stored' in woken && woken.stored?.frame) || Buffer.alloc(8)
    expect(codecOf(delivered)).toBe('br')
    expect(String(decodeFrame('k', delivered)?.body)).toBe(String(body))
    await Promise.all([filler.close(), waiter.close()])
  })
})

describe('a commit that waited', () => {
  it.each([
    ['for its compression', true],
    ['in the queue', false],
  ])('counts the wait %s as age', async (_, compress) => {
    const store = openBareStore(server.url, { clock: CLOCK }, PATIENT.commandTimeoutMs, compress)
    const reply = await store.lookup('k', { token: 'filler', leaseMs: 20_000 })
    if (reply.status !== 'leased') throw new Error(reply.status)
    const body = Buffer.alloc(4_000, 'x')
    const provenance = { asOf: 0, tookMs: 0, subjects: [] }
    const frame = encodeFrame('k', { type: 'value', encoding: 'bytes', body, provenance })
    const commit = store.commit(reply.grant, frame, LIFETIMES)
    // The event loop is busy before the next turn, in which the body is compressed or sent.
    const until = performance.now() + 300
    while (performance.now() < until);
    expect(await commit).toBe('committed')
    const { stored } = (await store.lookup('k', { token: 'r', leaseMs: 0 })) as {
      stored: { ageMs: number; freshForMs: number }
    }
    expect(stored.ageMs).toBeGreaterThanOrEqual(299)
    expect(stored.freshForMs).toBeLessThanOrEqual(LIFETIMES.freshMs - 299)
    await store.close()
  })
})

describe('a commit whose body is being compressed', () => {
  const provenance = { asOf: 0, tookMs: 0, subjects: [] }
  const frameOf = (key: string, bytes: number) => {
    const body = Buffer.alloc(bytes, `${key} stampede `)
    return encodeFrame(key, { type: 'value', encoding: 'bytes', body, provenance })
  }

  function openPacking() {
    return openBareStore(server.url, { clock: CLOCK }, PATIENT.commandTimeoutMs, true)
  }
  type Store = ReturnType<typeof openPacking>

  async function lease(store: Store, key: string) {
    const reply = await store.lookup(key, { token: `t ${key}`, leaseMs: 20_000 })
    if (reply.status !== 'leased') throw new Error(reply.status)
    return reply.grant
  }

  it.each([4_000, 100_000])('is refused after a purge of its key: %i bytes', async (bytes) => {
    const [filler, other] = [openPacking(), openPacking()]
    // Connected, it sends the next purge at once.
    await other.purge('first', { soft: false })
    const grant = await lease(filler, 'k')
    const commit = filler.commit(grant, frameOf('k', bytes), LIFETIMES)
    // The purge is sent first: a compression ends in a later turn.
    await other.purge('k', { soft: false })
    expect(await commit).toBe('fenced')
    await Promise.all([filler.close(), other.close()])
  })

  it.each([4_000, 100_000])('fails if the store is closed: %i bytes', async (bytes) => {
    const store = openPacking()
    const commit = store.commit(await lease(store, 'k'), frameOf('k', bytes), LIFETIMES)
    await store.close()
    await expect(commit).rejects.toThrow()
    expect(await admin.hexists(record('k'), 'frame')).toBe(0)
  })

  it('is sent in one command with the others of a batch, each with its own reply', async () => {
    const [filler, other] = [openPacking(), openPacking()]
    const keys = Array.from({ length: 60 }, (_, i) => `k${i}`)
    const grants: Array<Awaited<ReturnType<typeof lease>>> = []
    for (const key of keys) grants.push(await lease(filler, key))
    await other.purge('k7', { soft: false })
    const commits: Array<ReturnType<typeof filler.commit>> = []
    const begin = () => {
      for (const grant of grants)
        commits.push(filler.commit(grant, frameOf(grant.key, 3_000), LIFETIMES))
    }
    const sent = await sentMeanwhile(server, async () => {
      filler.together?.(begin)
      await Promise.all(commits)
    })
    expect(sent.scripts).toBe(1)
    const refused = (await Promise.all(commits)).flatMap((reply, i) =>
      reply === 'committed' ? [] : [`${keys[i]} ${reply}`],
    )
    expect(refused).toEqual(['k7 fenced'])
    for (const key of keys.filter((each) => each !== 'k7')) {
      const frame = await frameIn(record(key))
      expect(codecOf(frame)).toBe('br')
      const body = decodeFrame(key, frame)?.body ?? []
      expect(String(Buffer.from(body))).toBe(String(Buffer.alloc(3_000, `${key} stampede `)))
    }
    await Promise.all([filler.close(), other.close()])
  })
})

describe('a page', () => {
  const page = `<p>${'stampede '.repeat(2_000)}</p>`
  const BODIES: Readonly<Record<string, readonly [headers: object, body: string | Buffer]>> = {
    '/page': [{ 'content-type': 'text/html' }, page],
    '/gzip': [
      { 'content-type': 'text/html', 'content-encoding': 'gzip' },
      gzipSync(page.repeat(9)),
    ],
    '/png': [{ 'content-type': 'image/png' }, Buffer.alloc(10_000, 'png')],
    '/bytes': [{ 'content-type': 'application/octet-stream' }, randomBytes(10_000)],
    '/short': [{ 'content-type': 'text/html' }, 'short'],
    '/empty': [{ 'content-type': 'text/html' }, ''],
  }

  async function serveWith(compress: boolean) {
    const stampede = start(compress)
    let runs = 0
    const app = express().disable('x-powered-by').set('etag', false)
    app.use(stampedeCache({ stampede, ...TTL, waitMs: 20_000 }))
    app.use((req, res) => {
      runs += 1
      const [headers, body] = BODIES[req.path] ?? [{}, 'none']
      res.set(headers).end(body)
    })
    const served = await serve(app)
    const ask = async (path: string) => {
      const { head, body } = await rawRequest(served.port, path)
      const lines = head.map((line) => line.toLowerCase()).sort()
      const same = lines.filter((line) => !/^(age|cache-status|etag):/.test(line))
      return [...same, createHash('sha256').update(body).digest('hex')]
    }
    return { ask, stampede, runs: () => runs, stop: () => served[Symbol.asyncDispose]() }
  }

  it.each(Object.keys(BODIES))('has the bytes of the handler on each process: %s', async (path) => {
    const [packing, plain] = [await serveWith(true), await serveWith(false)]
    const miss = await packing.ask(path)
    await quiet(packing.stampede)
    const records = await admin.keys(`${PREFIX}:4:{=http:*`)
    const codecs = []
    for (const record of records) {
      const frame = await admin.hgetBuffer(record, 'frame')
      if (frame !== null) codecs.push(codecOf(frame))
    }
    expect(codecs).toEqual([path === '/page' ? 'br' : undefined])
    for (const { ask } of [packing, plain]) expect(await ask(path)).toEqual(miss)
    expect(packing.runs() + plain.runs()).toBe(1)
    await Promise.all([packing.stop(), plain.stop()])
  })
})

describe('a frame planted as a compressed entry', () => {
  it.each([
    ['names no codec', (frame: Buffer) => Object.assign(frame, { 1: 4 })],
    ['has a codec and the version without one', (frame: Buffer) => Object.assign(frame, { 7: 2 })],
    ['is not compressed', (frame: Buffer) => Object.assign(frame, { 1: 4, 7: 2 })],
  ])('is a miss if it %s', async (_, plant) => {
    const stampede = start()
    await stampede.getOrSet('k', () => 'old', TTL)
    await quiet(stampede)
    const fields = await admin.hgetallBuffer(KEY)
    const head = JSON.stringify({ z: 5, p: Number.MAX_SAFE_INTEGER, d: 0, t: [] })
    const sound = forgeFrame(head, { kind: 2, body: '"new"', digest: keyDigest('d:=k') })
    await admin.hset(KEY, { ...fields, frame: sound })
    expect(await stampede.getOrSet('k', noFactory, TTL)).toBe('new')
    await admin.hset(KEY, { ...fields, frame: withChecksum(plant(sound)) })
    expect(await stampede.getOrSet('k', () => 'filled', TTL)).toBe('filled')
  })
})
