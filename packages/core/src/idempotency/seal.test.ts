import { describe, expect, it } from 'vitest'
import { encodeKept } from './kept-response.ts'
import { Seal } from './seal.ts'

const OLD = 'the key of last year, 32 characters'
const NEW = 'the key of this year, 32 characters'
const RECORD = 'n1bQ'
const frame: Uint8Array = encodeKept('k', {
  type: 'response',
  status: 201,
  headers: [['x-secret', 'header-of-alice']],
  body: Buffer.from('body-of-alice'),
})
const text = (bytes: Uint8Array | undefined): string | undefined =>
  bytes && Buffer.from(bytes).toString('latin1')

describe('Seal with keys', () => {
  const seal = new Seal([NEW])

  it.each([
    ['a frame', frame],
    ['nothing', new Uint8Array()],
    ['much', Buffer.alloc(1_000_000, 7)],
  ])('opens what it sealed: %s', (_, bytes) => {
    expect(text(seal.open(RECORD, seal.seal(RECORD, bytes)))).toBe(text(bytes))
  })

  it('shows nothing of it, and never the same twice', () => {
    const sealed = seal.seal(RECORD, frame)
    for (const word of ['alice', 'x-secret', RECORD, NEW]) expect(text(sealed)).not.toContain(word)
    expect(text(sealed)).not.toBe(text(seal.seal(RECORD, frame)))
    expect(sealed.length).toBe(frame.length + 40)
  })

  it('refuses what was sealed for another record', () => {
    const sealed = seal.seal(RECORD, frame)
    expect(seal.open('n1bR', sealed)).toBeUndefined()
    expect(seal.open('', sealed)).toBeUndefined()
  })

  it('refuses what was changed anywhere, cut off or added to', () => {
    const sealed = seal.seal(RECORD, frame)
    for (let at = 0; at < sealed.length; at++) {
      const changed = Uint8Array.from(sealed)
      changed[at] = (changed[at] as number) ^ 1
      // A frame whose first bytes are others does not say that it is sealed; whoever decodes it refuses it.
      if (at >= 3) expect(seal.open(RECORD, changed)).toBeUndefined()
      if (at >= 3) expect(seal.open(RECORD, sealed.subarray(0, at))).toBeUndefined()
    }
    expect(seal.open(RECORD, Buffer.concat([sealed, Buffer.from([0])]))).toBeUndefined()
  })

  it('opens what any of its keys sealed, and seals with the first', () => {
    const before = new Seal([OLD]).seal(RECORD, frame)
    const both = new Seal([NEW, OLD])
    expect(text(both.open(RECORD, before))).toBe(text(frame))
    expect(seal.open(RECORD, before)).toBeUndefined()
    expect(text(seal.open(RECORD, both.seal(RECORD, frame)))).toBe(text(frame))
    expect(new Seal([OLD]).open(RECORD, both.seal(RECORD, frame))).toBeUndefined()
  })

  it('reads what was never sealed', () => {
    expect(seal.open(RECORD, frame)).toBe(frame)
    expect(text(seal.open(RECORD, Buffer.from('{"a":1}')))).toBe('{"a":1}')
    expect(text(seal.open(RECORD, Buffer.alloc(0)))).toBe('')
  })

  it('reads views into larger buffers', () => {
    const sealed = seal.seal(RECORD, frame)
    const view = Buffer.concat([Buffer.alloc(5), sealed, Buffer.alloc(5)]).subarray(5, -5)
    expect(text(seal.open(RECORD, new Uint8Array(view.buffer, view.byteOffset, view.length)))).toBe(
      text(frame),
    )
  })

  it('wants keys of 32 characters, and does not tell them', () => {
    const short = 'x'.repeat(31)
    expect(() => new Seal([NEW, short])).toThrowError(
      expect.objectContaining({
        code: 'ERR_STAMPEDE_OPTION',
        message: expect.not.stringContaining(short),
      }),
    )
    expect(JSON.stringify(new Seal([NEW]))).toBe('{}')
  })
})

describe('Seal without keys', () => {
  const open = new Seal([])

  it('leaves frames as they are', () => {
    expect(open.seal(RECORD, frame)).toBe(frame)
    expect(open.open(RECORD, frame)).toBe(frame)
  })

  it('refuses what is sealed, of this layout or a later one', () => {
    const sealed = Uint8Array.from(new Seal([NEW]).seal(RECORD, frame))
    expect(open.open(RECORD, sealed)).toBeUndefined()
    sealed[3] = 2
    expect(open.open(RECORD, sealed)).toBeUndefined()
  })
})
