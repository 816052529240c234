import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodeData, frozenCopy, Refusal } from './value.ts'

const at = { where: 'k' }

class Money {
  readonly cents = 1
}

const cycle: Record<string, unknown> = {}
cycle.deep = [{ again: cycle }]

describe('a value that getOrSet rejects', () => {
  it.each([
    [{ a: [0, new Map()] }, 'value.a[1]: a Map would become {}; use Object.fromEntries(map)'],
    [{ tags: new Set() }, 'value.tags: a Set would become {}; use [...set]'],
    [new Map(), 'a Map would become {}'],
    [{ 'a b': new Money() }, 'value["a b"]: an instance of Money would lose its class'],
    [[{ total: 1n }], 'value[0].total: JSON cannot represent a bigint'],
    [{ run: () => 1 }, 'value.run: JSON cannot represent a function'],
    [{ id: Symbol('s') }, 'value.id: JSON cannot represent a symbol'],
    [{ bytes: new Uint8Array(1) }, 'value.bytes: bytes inside a value would become {}'],
    [cycle, 'value.deep[0].again: JSON cannot represent a cycle'],
    [undefined, 'undefined was returned, which JSON cannot represent'],
    [{ first: new Map(), second: new Set() }, 'value.first: a Map'],
  ])('is one that JSON would change: %o', (value, problem) => {
    expect(() => encodeData(at, value)).toThrow(
      expect.objectContaining({
        code: 'ERR_STAMPEDE_VALUE',
        message: expect.stringContaining(`k: ${problem}`),
      }),
    )
  })
})

describe('a value whose members throw', () => {
  const failing = (error: Error) => ({
    calls: 0,
    get name() {
      this.calls += 1
      throw error
    },
  })

  it('rejects with the error of its getter, which is called once', () => {
    const error = new Error('no connection')
    const value = failing(error)
    expect(() => encodeData(at, { value, map: new Map() })).toThrow(error)
    expect(value.calls).toBe(1)
  })

  it('names the error of its toJSON(), which is called once', () => {
    let calls = 0
    const toJSON = () => {
      calls += 1
      if (calls === 1) throw new Error('not loaded')
    }
    expect(() => encodeData(at, { list: [{ toJSON }], map: new Map() })).toThrow(
      'k: value.list[0]: the value cannot be written as JSON (not loaded)',
    )
    expect(calls).toBe(1)
  })
})

describe('a value that getOrSet accepts', () => {
  it.each([
    [{ at: new Date(0), nothing: undefined, list: [undefined, null, Number.NaN] }],
    [Object.assign(Object.create(null), { a: 1 })],
    [{ money: { toJSON: () => '1.00', ignored: new Map() } }],
    [Buffer.from('a')],
  ])('is one with a JSON form: %o', (value) => {
    expect(() => encodeData(at, value)).not.toThrow()
  })

  it('may have one object in two places', () => {
    const shared = { list: [1, { a: 1 }] }
    expect(() => encodeData(at, [shared, { shared }, shared, shared.list])).not.toThrow()
  })

  it('may be nested to any depth that the encoder accepts', () => {
    let deep: unknown = 1
    for (let i = 0; i < 1_000; i++) deep = i % 2 === 0 ? [deep] : { deep }
    expect(() => encodeData(at, deep)).not.toThrow()
    for (let i = 0; i < 1_000_000; i++) deep = [deep]
    try {
      encodeData(at, deep)
    } catch (error) {
      expect(error).toMatchObject({ code: 'ERR_STAMPEDE_VALUE' })
    }
  })

  it('is any value that JSON.parse returns', () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => void encodeData(at, value)))
  })
})

describe('a frozen copy', () => {
  const isFrozen = (value: unknown): boolean =>
    Object(value) !== value ||
    (Object.isFrozen(value) && Object.values(value as object).every(isFrozen))

  it('is what JSON.parse returns for the JSON of any plain value', () => {
    const leaf = fc.oneof(fc.anything({ maxDepth: 0 }), fc.constantFrom(-0, Number.NaN, undefined))
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc.array(tie('tree'), { maxLength: 4 }),
        fc.sparseArray(tie('tree'), { maxLength: 4 }),
        fc.dictionary(
          fc.oneof(fc.string(), fc.constantFrom('__proto__', '1', 'toJSON')),
          tie('tree'),
        ),
      ),
    }))
    let copied = 0
    fc.assert(
      fc.property(tree, (value) => {
        const copy = frozenCopy(value)
        if (copy instanceof Refusal) return
        copied += 1
        expect(copy).toStrictEqual(JSON.parse(JSON.stringify(value)))
        expect(Object.keys(Object(copy))).toEqual(
          Object.keys(Object(JSON.parse(JSON.stringify(value)))),
        )
        expect(isFrozen(copy)).toBe(true)
      }),
      { numRuns: 2_000 },
    )
    expect(copied).toBeGreaterThan(500)
  })

  it('has the JSON form of its members with a toJSON()', () => {
    const money = { toJSON: (name: string) => ({ name, cents: [1] }), ignored: new Map() }
    const none = { toJSON: () => undefined }
    const copy = frozenCopy({ at: new Date(0), money, list: [none, money], none })
    expect(copy).toStrictEqual({
      at: '1970-01-01T00:00:00.000Z',
      money: { name: 'money', cents: [1] },
      list: [null, { name: '1', cents: [1] }],
    })
    expect(isFrozen(copy)).toBe(true)
  })

  it.each([[cycle], [[new Money()]], [() => 1], [1n]])(
    'is not made of other values: %o',
    (value) => {
      expect(frozenCopy(value)).toBeInstanceOf(Refusal)
    },
  )
})
