import zlib from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { forgeFrame, turnBit, withChecksum } from '../testing/frames.ts'
import { runs } from '../testing/hostile.ts'
import { type StoredEntry, type StoredResponse, UNKNOWN_PROVENANCE } from './entry.ts'
import { type Codec, codecOf, compressibleBody, decodeFrame, encodeFrame } from './frame.ts'

const PAGE = Buffer.from('<p>stampede</p>'.repeat(200))
const RESPONSE: StoredResponse = {
  type: 'response',
  status: 200,
  fields: ['content-type', 'text/html', 'x-a', 'é'],
  body: PAGE,
  provenance: { asOf: 7, tookMs: 12, subjects: ['t=a'], path: '/p', host: 'h:1' },
  initialAgeMs: 3_000,
  vary: [['accept', null]],
}
const JSON_VALUE: StoredEntry = {
  type: 'value',
  encoding: 'json',
  body: Buffer.from(JSON.stringify({ a: 'b'.repeat(3_000) })),
  provenance: UNKNOWN_PROVENANCE,
}
const BYTES: StoredEntry = {
  type: 'value',
  encoding: 'bytes',
  body: Buffer.alloc(5_000, 'bytes'),
  provenance: UNKNOWN_PROVENANCE,
}

const { zstdCompressSync } = zlib as { zstdCompressSync?: (body: Uint8Array) => Buffer }
const COMPRESS: Readonly<Record<string, (body: Uint8Array) => Buffer>> = {
  gzip: (body) => zlib.gzipSync(body),
  br: (body) => zlib.brotliCompressSync(body),
  // Since Node 22.15.
  ...(zstdCompressSync && { zstd: (body) => zstdCompressSync(body) }),
}

// A gigabyte of zeros, compressed by Brotli: blocks of 16 MiB, of which eight end with a byte.
const BLOCKS =
  'f9ffff0f0004401c1680eefd3fffffff01800088c302d0bdffe7ffff3f001000715800baf7fffcff' +
  'ff070002200e0b40f7fe9fffffff004000c46101e8defff3ffff1f000880382c00ddfb7ffeffff03' +
  '0001108705a07bffcfffff7f002000e2b00074efff'
const LAST_BLOCKS =
  'f9ffff0f0004401c1680eefd3fffffff01800088c302d0bdffe7ffff3f001000715800baf7fffcff' +
  'ff070002200e0b40f7fe9fffffff004000c46101e8defff3ffff1f000880382c00ddfbfffcffff07' +
  '0001108705a07bff0f'
const BOMB = Buffer.from(`cfffff7f002000e2b14072efff${BLOCKS.repeat(7)}${LAST_BLOCKS}`, 'hex')

const compressed = (entry: StoredEntry, codec = 'br'): Buffer =>
  compressibleBody(encodeFrame('k', entry), 0)?.frameWith(
    codec as Codec,
    COMPRESS[codec]?.(entry.body) ?? Buffer.alloc(0),
  ) as Buffer

/** A frame of bytes as version 4, with this codec and this head. */
function forge(codec: number, body: Uint8Array, head: object, kind = 3): Buffer {
  const empty = forgeFrame(JSON.stringify({ p: 0, d: 0, t: [], ...head }), { kind, body: '' })
  const frame = Buffer.concat([empty, body])
  frame[1] = 4
  frame[7] = codec
  frame.writeUInt32BE(body.length, 12)
  return withChecksum(frame)
}

describe.each(Object.keys(COMPRESS))('a frame compressed by %s', (codec) => {
  it.each([RESPONSE, JSON_VALUE, BYTES])('is decoded to the same entry: %o', (entry) => {
    const plain = encodeFrame('k', entry)
    const frame = compressed(entry, codec)
    expect(frame.length).toBeLessThan(plain.length / 2)
    expect([frame[1], codecOf(frame), codecOf(plain)]).toEqual([4, codec, undefined])
    const read = decodeFrame('k', frame)
    expect(read).toEqual({ ...decodeFrame('k', plain), body: expect.anything() })
    expect(Buffer.from(read?.body ?? []).equals(entry.body)).toBe(true)
    expect(decodeFrame('other', frame)).toBeUndefined()
  })

  it('keeps no larger buffer in memory for a body that goes into memory', () => {
    const read = decodeFrame('k', compressed(RESPONSE, codec))
    expect(read?.body.buffer.byteLength).toBeLessThanOrEqual(PAGE.length + 128)
  })

  it('is refused if its end is missing, or if any bit is flipped', () => {
    const frame = compressed(RESPONSE, codec)
    for (let length = 0; length < frame.length; length++) {
      expect(decodeFrame('k', frame.subarray(0, length)), `${length} bytes`).toBeUndefined()
    }
    for (let bit = 0; bit < frame.length * 8; bit++) {
      expect(decodeFrame('k', turnBit(frame, bit)), `bit ${bit}`).toBeUndefined()
    }
  })

  it('has the length that its head names, or is refused, after any change with a checksum', () => {
    const frame = compressed(BYTES, codec)
    const change = fc.tuple(fc.nat(frame.length - 1), fc.nat(255))
    const changed = fc.property(fc.array(change, { minLength: 1, maxLength: 3 }), (changes) => {
      const copy = Buffer.from(frame)
      for (const [at, byte] of changes) copy[at] = byte
      const read = decodeFrame('k', withChecksum(copy))
      const [, named] = /"z":(\d+)/.exec(copy.toString('latin1')) ?? []
      if (read !== undefined) expect(read.body.length).toBe(Number(named))
    })
    fc.assert(changed, runs(1_000))
  })

  it.each([
    PAGE.length - 1,
    PAGE.length + 1,
    0,
    -1,
    0.5,
    2 ** 32,
    '3000',
    null,
    undefined,
    [3_000],
  ])('is refused if its head names the length %j', (z) => {
    const number = ['', 'gzip', 'br', 'zstd'].indexOf(codec)
    const body = COMPRESS[codec]?.(PAGE) ?? PAGE
    expect(decodeFrame('k', forge(number, body, { z: PAGE.length }))).toBeDefined()
    expect(decodeFrame('k', forge(number, body, { z }))).toBeUndefined()
  })
})

describe('a planted frame with a codec', () => {
  const br = zlib.brotliCompressSync(PAGE)
  const z = PAGE.length

  it.each([0, 4, 5, 128, 255])('is refused with the codec %i', (codec) => {
    expect(decodeFrame('k', forge(codec, br, { z }))).toBeUndefined()
  })

  it('is refused if its bytes are of another codec', () => {
    expect(decodeFrame('k', forge(2, br, { z }))).toBeDefined()
    for (const codec of [1, 3]) expect(decodeFrame('k', forge(codec, br, { z }))).toBeUndefined()
  })

  it('is refused in the version of frames without a codec', () => {
    const frame = forge(2, br, { z })
    frame[1] = 3
    expect(decodeFrame('k', withChecksum(frame))).toBeUndefined()
  })

  it('is refused if it has no body', () => {
    for (const length of [0, 1]) {
      expect(decodeFrame('k', forge(2, Buffer.alloc(0), { z: length }))).toBeUndefined()
    }
    expect(decodeFrame('k', forge(2, zlib.brotliCompressSync(''), { z: 0 }))).toBeUndefined()
  })

  it('takes no more memory than the largest entry', () => {
    expect(BOMB.length).toBeLessThan(1_000)
    for (const length of [2 ** 30, 4 * 1024 * 1024 + 1, 4 * 1024 * 1024, 1]) {
      const before = process.memoryUsage().arrayBuffers
      expect(decodeFrame('k', forge(2, BOMB, { z: length }))).toBeUndefined()
      expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(32 * 1024 * 1024)
    }
  })
})

describe('the body for a store to compress', () => {
  const bodyOf = (fields: readonly string[], minBytes = 0) =>
    compressibleBody(encodeFrame('k', { ...RESPONSE, fields }), minBytes)?.body

  it('is the body of the frame, from `minBytes` on', () => {
    expect(bodyOf([], PAGE.length)?.equals(PAGE)).toBe(true)
    expect(bodyOf([], PAGE.length + 1)).toBeUndefined()
    const value = compressibleBody(encodeFrame('k', JSON_VALUE), 1)?.body
    expect(value?.equals(JSON_VALUE.body)).toBe(true)
  })

  it.each([
    ...[['content-encoding', 'br'] as const, ['content-encoding', 'identity'] as const],
    ...['image/png', 'IMAGE/JPEG', 'video/mp4', 'audio/ogg', 'font/woff2', 'application/zip'].map(
      (type) => ['content-type', type] as const,
    ),
  ])('does not exist for a response with %s: %s', (name, value) => {
    expect(bodyOf(['x-a', '1', name, value])).toBeUndefined()
  })

  it.each(['text/html', 'application/json; charset=utf-8', 'image/svg+xml', 'application/wasm'])(
    'exists for the type %s',
    (type) => {
      expect(bodyOf(['content-type', type])?.length).toBe(PAGE.length)
    },
  )

  it('does not exist for a compressed frame, or for other bytes', () => {
    const frame = encodeFrame('k', RESPONSE)
    const others = [compressed(RESPONSE), Buffer.from('frame')]
    for (const bytes of [...others, frame.subarray(1), frame.subarray(0, -1), Buffer.alloc(100)]) {
      expect(compressibleBody(bytes, 0)).toBeUndefined()
    }
  })

  it('does not exist above 4 MiB, which no process would decode', () => {
    const sized = (bytes: number) =>
      compressibleBody(encodeFrame('k', { ...BYTES, body: Buffer.alloc(bytes) }), 0)
    expect(sized(4 * 1024 * 1024)).toBeDefined()
    expect(sized(4 * 1024 * 1024 + 1)).toBeUndefined()
  })
})
