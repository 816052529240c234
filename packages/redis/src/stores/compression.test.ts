import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import zlib from 'node:zlib'
import type { Clock } from '@stampede/core/store'
import { ManualClock } from '@stampede/core/testing'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { codecOf, decodeFrame, encodeFrame } from '../../../core/src/entry/frame.ts'
import { Compression } from './compression.ts'
import { redisStore } from './redis-store.ts'

const provenance = { asOf: 0, tookMs: 0, subjects: [] }
const frameOf = (body: string | Buffer): Buffer =>
  encodeFrame('k', { type: 'value', encoding: 'bytes', body: Buffer.from(body), provenance })
const textOf = (bytes: number) => '<p>stampede</p>'.repeat(bytes).slice(0, bytes)

/** The clock stands still, so that no compression is late on a busy machine. */
const still: Clock = new ManualClock()

const compress = (frame: Buffer, { option = {}, isAwaited = false, clock = still } = {}) =>
  new Promise<Uint8Array>((resolve) => {
    new Compression('redisStore.compress', option).compress(frame, isAwaited, clock, resolve)
  })

/** The codec and the bytes of a body as they are stored. */
async function stored(body: string | Buffer, how: Parameters<typeof compress>[1] = {}) {
  const frame = Buffer.from(await compress(frameOf(body), how))
  expect(Buffer.from(decodeFrame('k', frame)?.body ?? []).equals(Buffer.from(body))).toBe(true)
  return { codec: codecOf(frame), bytes: frame.subarray(24 + frame.readUInt32BE(8)) }
}

describe('the option `compress` of redisStore', () => {
  const errorOf = (compress: unknown) => {
    const client = new Redis({ lazyConnect: true })
    try {
      redisStore(client, { compress: compress as boolean })
      return ''
    } catch (error) {
      return (error as Error).message
    }
  }

  it.each([
    ['br', 'redisStore.compress: received "br"; pass an object of options'],
    [null, 'redisStore.compress: received null; pass an object of options'],
    [{ codec: 'deflate' }, 'redisStore.compress.codec: received "deflate"; use one of \'br\', '],
    [{ minBytes: -1 }, 'redisStore.compress.minBytes: received -1; use a whole number of bytes'],
    [{ level: 12 }, 'redisStore.compress.level: received 12; use a whole number of steps from 1 '],
    [{ codec: 'gzip', level: 10 }, 'redisStore.compress.level: received 10; '],
    [{ quality: 4 }, 'redisStore.compress.quality: received 4; there is no such option; '],
  ])('is refused with the value %j', (value, message) => {
    expect(errorOf(value)).toContain(message)
  })

  it.each([true, false, undefined, {}, { codec: 'gzip', level: 9, minBytes: 0 }, { level: 11 }])(
    'may be %j',
    (value) => {
      expect(errorOf(value)).toBe('')
    },
  )

  it('has the codec zstd only in a version of Node with it', async () => {
    if ('zstdCompress' in zlib) {
      expect(await stored(textOf(3_000), { option: { codec: 'zstd' } })).toMatchObject({
        codec: 'zstd',
      })
    } else {
      expect(errorOf({ codec: 'zstd' })).toBe(
        'redisStore.compress.codec: received "zstd"; it needs Node 22.15 or newer; use br or gzip',
      )
    }
  })
})

describe('a body in Redis', () => {
  it('is compressed from 2048 bytes on', async () => {
    expect((await stored(textOf(2_047))).codec).toBeUndefined()
    expect((await stored(textOf(2_048))).codec).toBe('br')
    const option = { minBytes: 5_000, codec: 'gzip' }
    expect((await stored(textOf(4_999), { option })).codec).toBeUndefined()
    expect((await stored(textOf(5_000), { option })).codec).toBe('gzip')
  })

  it('stays as it is if it would become less than a tenth smaller', async () => {
    for (const bytes of [4_000, 100_000]) {
      expect((await stored(randomBytes(bytes))).codec).toBeUndefined()
    }
  })

  it('has the level of the option, but level 1 if waiters need it, or above 1 MiB', async () => {
    const byLevel = (body: string, level: number) =>
      zlib.brotliCompressSync(body, {
        params: {
          [zlib.constants.BROTLI_PARAM_QUALITY]: level,
          [zlib.constants.BROTLI_PARAM_SIZE_HINT]: body.length,
        },
      })
    const option = { level: 4 }
    const words = Array.from({ length: 9_000 }, (_, i) => `stampede ${i * i}`).join('\n')
    for (const body of [words.slice(0, 4_000), words]) {
      const [fast, usual] = [byLevel(body, 1), byLevel(body, 4)]
      expect(fast.equals(usual)).toBe(false)
      expect((await stored(body)).bytes.equals(fast)).toBe(true)
      expect((await stored(body, { option })).bytes.equals(usual)).toBe(true)
      expect((await stored(body, { option, isAwaited: true })).bytes.equals(fast)).toBe(true)
    }
    const large = words.repeat(10)
    expect((await stored(large, { option })).bytes.equals(byLevel(large, 1))).toBe(true)
  })

  it.each([4_000, 100_000])('is compressed after the response to its client: %i', async (bytes) => {
    const order: string[] = []
    const isStored = compress(frameOf(textOf(bytes))).then(() => order.push('compressed'))
    // The work of the turn that ends the response.
    for (let i = 0; i < 50; i++) await undefined
    order.push('response')
    await isStored
    expect(order).toEqual(['response', 'compressed'])
  })
})

describe('the thread pool', () => {
  const frame = frameOf(textOf(100_000))
  const several = async (count: number) => {
    const frames = await Promise.all(Array.from({ length: count }, () => compress(frame)))
    return frames.map((each) => codecOf(each) ?? 'none')
  }

  it('has at most four compressions, and a fifth entry is stored as it is', async () => {
    expect(await several(6)).toEqual(['br', 'br', 'br', 'br', 'none', 'none'])
    expect(await several(4)).toEqual(['br', 'br', 'br', 'br'])
  })

  it('has small bodies of a high level too, which would stop the event loop', async () => {
    const small = frameOf(textOf(10_000))
    const how = { option: { level: 11 } }
    const frames = await Promise.all(Array.from({ length: 5 }, () => compress(small, how)))
    expect(frames.map((each) => codecOf(each) ?? 'none')).toEqual(['br', 'br', 'br', 'br', 'none'])
  })

  it('makes a commit wait for at most 50 ms if the app has filled it', async () => {
    const clock = new ManualClock()
    const free = fillPool()
    let got: Uint8Array | undefined
    const isStored = compress(frame, { clock }).then((its) => {
      got = its
    })
    await clock.advance(49)
    expect(got).toBeUndefined()
    await clock.advance(1)
    expect(got).toBe(frame)
    await free()
    await isStored
    expect(clock.timers).toBe(0)
    await expect.poll(() => several(4)).toEqual(['br', 'br', 'br', 'br'])
  })
})

/** Fills the thread pool with the opening of pipes, which waits for writers and takes no CPU. */
function fillPool(): () => Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'stampede-pipes-'))
  const threads = Number(process.env.UV_THREADPOOL_SIZE ?? 4)
  const pipes = Array.from({ length: threads }, (_, i) => join(folder, String(i)))
  execFileSync('mkfifo', pipes)
  const opening = pipes.map((pipe) => open(pipe, 'r'))
  return async () => {
    const writers = pipes.map((pipe) => openSync(pipe, 'r+'))
    for (const reader of await Promise.all(opening)) await reader.close()
    for (const writer of writers) closeSync(writer)
    rmSync(folder, { recursive: true })
  }
}
