import { Readable } from 'node:stream'
import { describe, expect, it, vi } from 'vitest'
import { BodyCut, teeStream } from './body.ts'

const TEXT = '0123456789'
const bytes = (text: string): Uint8Array => Buffer.from(text)

/** The body in chunks of `size`. */
function chunksOf(size: number): string[] {
  return Array.from({ length: Math.ceil(TEXT.length / size) }, (_, i) =>
    TEXT.slice(i * size, (i + 1) * size),
  )
}

describe('a BodyCut', () => {
  it('passes exactly its byte range for any chunk size, and the last byte only at the end', () => {
    for (let start = 0; start < TEXT.length; start++) {
      for (let end = start + 1; end <= TEXT.length; end++) {
        for (let size = 1; size <= TEXT.length; size++) {
          const cut = new BodyCut(start, end)
          const passed = chunksOf(size).map((chunk) => Buffer.from(cut.take(bytes(chunk))))
          const before = Buffer.concat(passed).toString()
          expect(before).toBe(TEXT.slice(start, end - 1))
          expect(cut.done).toBe(true)
          expect(Buffer.from(cut.rest()).toString()).toBe(TEXT[end - 1])
          expect(cut.rest()).toHaveLength(0)
        }
      }
    }
  })

  it('keeps the last byte even if the handler reuses its buffer', () => {
    const cut = new BodyCut(0, 2)
    const own = Buffer.from('ab')
    cut.take(own)
    own.fill('x')
    expect(Buffer.from(cut.rest()).toString()).toBe('b')
  })

  it('passes only the replacement if the body is to be replaced', () => {
    const cut = new BodyCut(0, 0, bytes('instead'))
    expect([cut.done, cut.take(bytes(TEXT)).byteLength]).toEqual([true, 0])
    expect(Buffer.from(cut.rest()).toString()).toBe('instead')
  })
})

const HEAD = { status: 200, headers: [] }

describe('a cut stream that is not copied', () => {
  it('ends after its byte range, and destroys the source without an error', async () => {
    // The source could still send more data.
    const source = new Readable({ read() {} })
    source.push('0123')
    source.push('4567')
    const failed = vi.fn()
    source.on('error', failed)
    const { stream, ended } = teeStream(source, {
      head: HEAD,
      maxBytes: 0,
      part: { start: 2, end: 6 },
    })
    expect(Buffer.concat(await stream.toArray()).toString()).toBe('2345')
    await new Promise(setImmediate)
    expect(source.destroyed).toBe(true)
    expect(await ended).toEqual({ type: 'not-captured', reason: 'too-large' })
    expect(failed).not.toHaveBeenCalled()
  })

  it('fails if its source fails', async () => {
    const source = new Readable({
      read() {
        this.destroy(new Error('the source broke'))
      },
    })
    const { stream } = teeStream(source, { head: HEAD, maxBytes: 0, part: { start: 0, end: 9 } })
    await expect(stream.toArray()).rejects.toThrow('broke')
  })
})
