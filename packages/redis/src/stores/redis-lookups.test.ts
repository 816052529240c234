import type { StampedeStore } from '@stampede/core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RedisLink } from '../connection/link.ts'
import type { Operation } from '../connection/operation.ts'
import { PlainReads, readLife } from './redis-lookups.ts'

type LookupReply = Awaited<ReturnType<StampedeStore['lookup']>>

const read = (text: string) => readLife(Buffer.from(text))

describe('the stored times of an entry', () => {
  it('are parsed from its record', () => {
    expect(read('1795307491160000 1795307491160 1795307499160 2000 3000 0')).toEqual([
      1795307491160000, 1795307491160, 1795307499160, 2000, 3000, 0,
    ])
  })

  it.each([
    ['no text', ''],
    ['a missing part', '1 2 3 4 5'],
    ['an extra part', '1 2 3 4 5 6 7'],
    ['an empty part', '1 2  4 5 6'],
    ['a leading space', ' 1 2 3 4 5 6'],
    ['a trailing space', '1 2 3 4 5 6 '],
    ['a sign', '1 2 -3 4 5 6'],
    ['a fraction', '1 2 3.5 4 5 6'],
    ['an exponent', '1 2 1e9 4 5 6'],
    ['a word', '1 2 inf 4 5 6'],
    ['a number that is not exact', '1 2 99999999999999999 4 5 6'],
  ])('are refused with %s', (_what, text) => {
    expect(read(text)).toBeUndefined()
  })

  it.each([null, undefined, 'text', 7, []])('are refused if they are not bytes (%s)', (value) => {
    expect(readLife(value)).toBeUndefined()
  })

  it('are parsed if they are six whole numbers with single spaces', () => {
    const part = fc.oneof(fc.nat(), fc.constantFrom('', 'x', '-1', '007', '9007199254740992'))
    const parts = fc.array(part, { minLength: 5, maxLength: 7 })
    const whole = /^\d+( \d+){5}$/
    fc.assert(
      fc.property(parts, (values) => {
        const text = values.join(' ')
        const life = read(text)
        const numbers = text.split(' ').map(Number)
        const isOurs = whole.test(text) && numbers.every(Number.isSafeInteger)
        expect(life).toEqual(isOurs ? numbers : undefined)
      }),
    )
  })
})

describe('a plain read', () => {
  const REQUEST = {} as Parameters<PlainReads['isWorthwhile']>[0]
  const HIT = { status: 'fresh' } as LookupReply
  const BUDGET_MS = 200

  function afterHits(): PlainReads {
    const reads = new PlainReads({ isCluster: false, budgetMs: BUDGET_MS } as RedisLink)
    for (let hits = 0; hits < 16; hits++) reads.count(HIT)
    return reads
  }

  it.each([
    [BUDGET_MS, true],
    [BUDGET_MS / 2, true],
    [BUDGET_MS / 2 - 1, false],
    [0, false],
  ])('comes before the script if at least half of the budget is left: %s ms', (leftMs, isFirst) => {
    expect(afterHits().isWorthwhile(REQUEST, { leftMs })).toBe(isFirst)
  })

  it.each([
    ['that leaves half of the budget', undefined, BUDGET_MS / 2, true],
    ['that leaves less', undefined, BUDGET_MS / 2 - 1, false],
    ['that finds the entry', HIT, 0, true],
  ])('%s lets the next lookup begin with one: %s, %s ms, %s', (_what, found, leftMs, isNext) => {
    const reads = afterHits()
    // The operation's own test covers `command`.
    const command: Operation<LookupReply>['command'] = (_name, _read, next) => next(found as never)
    const results: unknown[] = []
    reads.find(['record'], { leftMs, command } as Operation<LookupReply>, (each) =>
      results.push(each),
    )
    expect(results).toEqual([found])
    expect(reads.isWorthwhile(REQUEST, { leftMs: BUDGET_MS })).toBe(isNext)
  })
})
