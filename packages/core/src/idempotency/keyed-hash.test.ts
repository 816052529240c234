import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KeyedHash } from './keyed-hash.ts'

const names = new KeyedHash('a secret of some length, for tests')
const KEY = /^[\w-]{43}$/

describe('KeyedHash', () => {
  it('keeps its results over versions, because records outlive processes', () => {
    const record = names.requestKey('alice', 'k-1') as string
    expect(record).toBe(
      new KeyedHash('a secret of some length, for tests').requestKey('alice', 'k-1'),
    )
    expect([
      record,
      names.fingerprint(['a', undefined, Buffer.from('b')]),
      names.childKey(record, 'stripe'),
    ]).toMatchInlineSnapshot(`
      [
        "b23TqLGEwIGDuUkuDBSxT5MQS4CVfWzYLrRKz9OU85U",
        "Hfi2Wa8eFNsIorJNC_upVoohWOvXDh_wW9ZriwIyLok",
        "UN6xU51ezn_i7fAVtYMS8rmLm5d_93BnfWyqpUapJ8M",
      ]
    `)
  })

  it.each([
    ['a short secret', 'a secret of some length, for tests'],
    ['a secret of more than one block', 'long '.repeat(40)],
    ['a secret beyond ASCII', 'päßwörter'.repeat(9)],
  ])('is the HMAC of its message with %s', (_, secret) => {
    const mark = (kind: number, bytes: Uint8Array) => {
      const head = Buffer.alloc(7)
      head[0] = kind
      head.writeUIntBE(bytes.length, 1, 6)
      return [head, bytes]
    }
    const text = (part: string) => mark(1, Buffer.from(part, 'utf16le'))
    for (const body of ['', 'ü\ud800', 'x'.repeat(5000)]) {
      const bytes = Buffer.from('y'.repeat(body.length))
      const message = [
        ...text('stampede:idempotency:1'),
        ...text('fingerprint'),
        ...text(body),
        Buffer.alloc(7),
        ...mark(2, bytes),
      ]
      const hmac = createHmac('sha256', secret).update(Buffer.concat(message)).digest('base64url')
      expect(new KeyedHash(secret).fingerprint([body, undefined, bytes])).toBe(hmac)
    }
  })

  it('gives another name to a record with another domain, scope, key or secret', () => {
    const records = [
      names.requestKey('alice', 'k'),
      names.jobKey('alice', 'k'),
      names.requestKey('bob', 'k'),
      names.requestKey('alice', 'K'),
      names.requestKey('alicek', ''),
      names.requestKey('a', 'licek'),
      names.requestKey('alice', 'k\0'),
      new KeyedHash('another secret').requestKey('alice', 'k'),
    ]
    expect(new Set(records).size).toBe(records.length)
    for (const record of records) expect(record).toMatch(KEY)
  })

  it('has a domain for each use', () => {
    expect(names.childKey('http', 'x')).not.toBe(names.fingerprint(['http', 'x']))
    expect(names.requestKey('a', 'b')).not.toBe(names.fingerprint(['http', 'a', 'b']))
  })

  it('gives the same short printable key to a called service in every attempt', () => {
    const record = names.requestKey('alice', 'k') as string
    expect(names.childKey(record, 'stripe')).toBe(names.childKey(record, 'stripe'))
    expect(names.childKey(record, 'stripe')).not.toBe(names.childKey(record, 'mail'))
    expect(names.childKey(record, 'x'.repeat(10_000))).toMatch(KEY)
    expect(names.childKey(record, '')).toMatch(KEY)
  })

  it.each([
    [[], [undefined]],
    [[undefined], ['']],
    [[''], [new Uint8Array()]],
    [['a'], [Buffer.from('a')]],
    [['a'], [Buffer.from('a', 'utf16le')]],
    [['ab'], ['a', 'b']],
    [['a', ''], ['a']],
    [
      ['a', undefined, 'b'],
      ['a', 'b', undefined],
    ],
    [['\ud800'], ['\ufffd']],
    [['\u00e9'], ['e\u0301']],
  ])('distinguishes %j and %j', (a, b) => {
    expect(names.fingerprint(a)).not.toBe(names.fingerprint(b))
  })

  it('gives equal fingerprints only for equal lists of parts', () => {
    const part = fc.option(fc.oneof(fc.string({ maxLength: 3 }), fc.uint8Array({ maxLength: 3 })), {
      nil: undefined,
    })
    const parts = fc.array(part, { maxLength: 4 })
    const plain = (list: readonly unknown[]) =>
      JSON.stringify(list.map((each) => (each === undefined ? 0 : [typeof each, each])))
    const apart = fc.property(parts, parts, (a, b) => {
      expect(names.fingerprint(a) === names.fingerprint(b)).toBe(plain(a) === plain(b))
    })
    fc.assert(apart, { seed: 7, numRuns: 1_000 })
  })
})
