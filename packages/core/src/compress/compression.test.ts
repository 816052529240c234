import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { heldEntry, type StoredResponse, UNKNOWN_PROVENANCE } from '../entry/entry.ts'
import { L1, newCopy } from '../l1/l1.ts'
import { codedBytes } from './coded-bodies.ts'
import type { Compression } from './compression.ts'
import { readCompression } from './read-compression.ts'

const FOREVER = { freshMs: 1e6, staleWhileRevalidateMs: 0, staleIfErrorMs: 0, keepMs: 0 }
const GZIP = { 'accept-encoding': 'gzip' }

function page(text: string, type = 'text/plain'): StoredResponse {
  return {
    type: 'response',
    status: 200,
    fields: ['content-type', type],
    // An entry as in L1, with a buffer of its own.
    body: new Uint8Array(Buffer.from(text)),
    initialAgeMs: 0,
    vary: [],
    provenance: UNKNOWN_PROVENANCE,
  }
}

function held(l1: L1, key: string, entry: StoredResponse): StoredResponse {
  const lifetimes = { ...FOREVER, physicalMs: 1e6 }
  l1.put(key, newCopy(heldEntry(entry, '1', lifetimes, 0)), l1.sequence())
  const slot = l1.get(key)
  return slot?.type === 'copy' && slot.held.entry.type === 'response' ? slot.held.entry : entry
}

/** Waits for a compression of ten times the work, so that earlier ones have ended. */
async function made(compression: Compression | undefined): Promise<void> {
  const l1 = create()
  const other = held(l1, 'other', page('c'.repeat(50_000)))
  await expect
    .poll(() => {
      compression?.prepare(l1, 'other', other, GZIP)
      return codedBytes(other.body)
    })
    .toBeGreaterThan(0)
}

const noise = (bytes: number) =>
  Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString('base64')

const create = (maxEntryBytes = 1e6) => new L1({ maxBytes: 1e7, maxEntries: 100, maxEntryBytes })

describe('a compressed form', () => {
  it('is made after a request, counted, and sent to later clients that accept it', async () => {
    const compression = readCompression('stampedeCache.compress', true)
    const l1 = create()
    const entry = held(l1, 'k', page('text '.repeat(1_000)))
    const before = l1.size.bytes
    expect(compression?.formOf(entry, GZIP).body).toBe(entry.body)
    compression?.prepare(l1, 'k', entry, GZIP)
    await expect.poll(() => l1.size.bytes).toBeGreaterThan(before)
    const form = compression?.formOf(entry, GZIP)
    expect(gunzipSync(form?.body ?? '').byteLength).toBe(5_000)
    expect(l1.size.bytes - before).toBe(codedBytes(entry.body))
    expect(compression?.formOf(entry, {}).body).toBe(entry.body)
    expect(compression?.formOf(entry, { ...GZIP, range: 'bytes=0-1' }).body).toBe(entry.body)
  })

  it('is not made of an entry that is not in L1', async () => {
    const compression = readCompression('stampedeCache.compress', true)
    const l1 = create()
    const [kept, loose] = [held(l1, 'k', page('a'.repeat(5_000))), page('b'.repeat(5_000))]
    compression?.prepare(l1, 'k', loose, GZIP)
    compression?.prepare(l1, 'k', kept, GZIP)
    await expect.poll(() => codedBytes(kept.body)).toBeGreaterThan(0)
    expect(codedBytes(loose.body)).toBe(0)
  })

  it('is dropped, and not made again, if the entry becomes too large with it', async () => {
    const compression = readCompression('stampedeCache.compress', { codings: ['gzip'] })
    const l1 = create(3_500)
    const entry = held(l1, 'k', page(`${Math.random()} `.repeat(100).slice(0, 2_000)))
    const { bytes } = l1.size
    compression?.prepare(l1, 'k', entry, GZIP)
    await made(compression)
    expect(codedBytes(entry.body)).toBe(0)
    expect([l1.size, l1.holds('k', entry.body)]).toEqual([{ entries: 1, bytes }, true])
    compression?.prepare(l1, 'k', entry, GZIP)
    expect(compression?.formOf(entry, GZIP).body).toBe(entry.body)
  })

  it('takes no more memory than is counted for it', async () => {
    const compression = readCompression('stampedeCache.compress', true)
    const l1 = create()
    const entry = held(l1, 'k', page('text '.repeat(1_000)))
    compression?.prepare(l1, 'k', entry, GZIP)
    await expect.poll(() => codedBytes(entry.body)).toBeGreaterThan(0)
    const form = compression?.formOf(entry, GZIP).body as Uint8Array
    expect(form.byteLength).toBeLessThan(100)
    expect(form.buffer.byteLength).toBe(form.byteLength)
    expect(codedBytes(entry.body)).toBeLessThan(2_000)
  })

  it('is dropped if it is too large, and other forms of the entry stay', async () => {
    const compression = readCompression('stampedeCache.compress', {
      codings: ['br', 'gzip'],
      minBytes: 0,
    })
    // This body is large for zlib's dictionary, but not for brotli's.
    const text = noise(50_000)
    const entry = page(text + text)
    const l1 = create(entry.body.byteLength * 1.75)
    const kept = held(l1, 'k', entry)
    compression?.prepare(l1, 'k', kept, { 'accept-encoding': 'br' })
    await expect.poll(() => codedBytes(kept.body)).toBeGreaterThan(0)
    const { bytes } = l1.size
    compression?.prepare(l1, 'k', kept, GZIP)
    await made(compression)
    expect(compression?.formOf(kept, GZIP).body).toBe(kept.body)
    expect(compression?.formOf(kept, { 'accept-encoding': 'br' }).body).not.toBe(kept.body)
    expect(l1.size.bytes).toBe(bytes)
  })

  it('is dropped if the bytes do not become smaller', async () => {
    const compression = readCompression('stampedeCache.compress', { types: ['*/*'] })
    const l1 = create()
    const entry = { ...page('', 'image/png'), body: crypto.getRandomValues(new Uint8Array(2_000)) }
    const kept = held(l1, 'k', entry)
    compression?.prepare(l1, 'k', kept, GZIP)
    compression?.prepare(l1, 'k', kept, GZIP)
    await made(compression)
    expect(compression?.formOf(kept, GZIP).body).toBe(kept.body)
  })

  it.each([
    [{ minBytes: -1 }, 'compress.minBytes'],
    [{ types: 'text' }, 'compress.types'],
    [{ types: ['text'] }, "name media types: ['text/*'"],
    [{ codings: ['deflate'] }, "use 'br', 'zstd' or 'gzip'"],
    [{ codings: [] }, 'compress.codings'],
    [{ types: [] }, 'compress.types'],
    [{ level: 9 }, 'level'],
    ['br', `stampedeCache.compress: received "br"; use true, or { codings: ['br'] }`],
    [['br'], "stampedeCache.compress: received an array of 1; use true, or { codings: ['br'] }"],
    [{ codings: ['br', 'brotli'] }, 'stampedeCache.compress.codings[1]: received "brotli"; use'],
    [{ codings: ['br', 'gzip', 'br'] }, 'codings[2]: received "br"; this coding is listed twice'],
  ])('cannot be configured with %j', (option, said) => {
    expect(() => readCompression('stampedeCache.compress', option)).toThrow(said)
  })

  it('may be only zstd if this Node supports zstd', () => {
    const old = ['br', 'gzip'] as const
    expect(() => readCompression('stampedeCache.compress', { codings: ['zstd'] }, old)).toThrow(
      'stampedeCache.compress.codings: received "zstd"; zstd needs Node 22.15',
    )
    expect(
      readCompression('stampedeCache.compress', { codings: ['zstd', 'gzip'] }, old),
    ).toBeDefined()
    expect(
      readCompression('stampedeCache.compress', { codings: ['zstd'] }, ['br', 'zstd', 'gzip']),
    ).toBeDefined()
  })

  it.each([
    ['text/css', true],
    ['application/ld+json', true],
    ['image/svg+xml', true],
    ['application/json', true],
    ['image/png', false],
    ['application/zip', false],
    ['application/json5', false],
    ['', false],
  ])('is made of %j by default: %s', (type, is) => {
    const head = { status: 200, headers: [['content-type', type]] as const }
    expect(readCompression('stampedeCache.compress', true)?.varies(head)).toBe(is)
  })
})
