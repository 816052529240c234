import { describe, expect, it } from 'vitest'
import { encodeKept, Seal } from './kept-response.ts'

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
    ['no bytes', new Uint8Array()],
    ['many bytes', Buffer.alloc(1_000_000, 7)],
  ])('opens its own seal: %s', (_, bytes) => {
    expect(text(seal.open(RECORD, seal.seal(RECORD, bytes)))).toBe(text(bytes))
  })

  it('hides the content, and never gives the same bytes twice', () => {
    const sealed = seal.seal(RECORD, frame)
    for (const word of ['alice', 'x-secret', RECORD, NEW]) expect(text(sealed)).not.toContain(word)
    expect(text(sealed)).not.toBe(text(seal.seal(RECORD, frame)))
    expect(sealed.length).toBe(frame.length + 40)
  })

  it('refuses a seal for another record', () => {
    const sealed = seal.seal(RECORD, frame)
    expect(seal.open('n1bR', sealed)).toBeUndefined()
    expect(seal.open('', sealed)).toBeUndefined()
  })

  it('refuses a seal that was changed, cut off or extended', () => {
    const sealed = seal.seal(RECORD, frame)
    for (let at = 0; at < sealed.length; at++) {
      const changed = Uint8Array.from(sealed)
      changed[at] = (changed[at] as number) ^ 1
      // A frame with other first bytes is not marked as sealed. Its decoder refuses it.
      if (at >= 3) expect(seal.open(RECORD, changed)).toBeUndefined()
      if (at >= 3) expect(seal.open(RECORD, sealed.subarray(0, at))).toBeUndefined()
    }
    expect(seal.open(RECORD, Buffer.concat([sealed, Buffer.from([0])]))).toBeUndefined()
  })

  it('opens seals of any of its keys, and seals with the first', () => {
    const before = new Seal([OLD]).seal(RECORD, frame)
    const both = new Seal([NEW, OLD])
    expect(text(both.open(RECORD, before))).toBe(text(frame))
    expect(seal.open(RECORD, before)).toBeUndefined()
    expect(text(seal.open(RECORD, both.seal(RECORD, frame)))).toBe(text(frame))
    expect(new Seal([OLD]).open(RECORD, both.seal(RECORD, frame))).toBeUndefined()
  })

  it('accepts unsealed frames', () => {
    expect(seal.open(RECORD, frame)).toBe(frame)
    expect(text(seal.open(RECORD, Buffer.from('{"a":1}')))).toBe('{"a":1}')
    expect(text(seal.open(RECORD, Buffer.alloc(0)))).toBe('')
  })

  it('opens seals that are views of larger buffers', () => {
    const sealed = seal.seal(RECORD, frame)
    const view = Buffer.concat([Buffer.alloc(5), sealed, Buffer.alloc(5)]).subarray(5, -5)
    expect(text(seal.open(RECORD, new Uint8Array(view.buffer, view.byteOffset, view.length)))).toBe(
      text(frame),
    )
  })

  it('requires keys of 32 characters, and does not print them', () => {
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

  it('leaves frames unchanged', () => {
    expect(open.seal(RECORD, frame)).toBe(frame)
    expect(open.open(RECORD, frame)).toBe(frame)
  })

  it('refuses sealed frames of this layout or a later one', () => {
    const sealed = Uint8Array.from(new Seal([NEW]).seal(RECORD, frame))
    expect(open.open(RECORD, sealed)).toBeUndefined()
    sealed[3] = 2
    expect(open.open(RECORD, sealed)).toBeUndefined()
  })
})
