import { describe, expect, it } from 'vitest'
import { decide, type Figure, notTested, type Verdict } from '../lib/verdict.ts'
import { withRejections } from './cell.ts'
import {
  judgeLostMessage,
  judgeMembers,
  judgeOutage,
  judgeRefusedRead,
} from './scenarios/faults.ts'
import {
  judgeCleared,
  judgeFailing,
  judgeHanging,
  judgeOvertaken,
  judgeThrown,
} from './scenarios/loads.ts'
import { shortfalls } from './shortfalls.ts'
import type { Result } from './stage.ts'

const value = (of: unknown, ms = 1): Result => ({ kind: 'value', value: of, ms })
const error = (ms = 1): Result => ({ kind: 'error', message: 'down', ms })
const none: Result = { kind: 'none', ms: 5_000 }
const [old, fresh] = [value('old'), value('new')]

const overtaken = (loader: string[], other: string[]) =>
  judgeOvertaken([{ by: 'another process', purge: value(undefined), loader, other }])
const [yes, no] = [
  { reached: true, ms: 5 },
  { reached: false, ms: 8_000 },
]
const [good, bad] = [
  { known: old, cold: old },
  { known: old, cold: none },
]

describe('a scenario', () => {
  it.each<[string, Verdict, 'ok' | 'fails']>([
    ['a purge, after which every read is new', overtaken(['"new"'], ['"new"']), 'ok'],
    ['a purge, after which a read is old', overtaken(['"new"'], ['"new"', '"old"']), 'fails'],
    ['two loads around a purge', judgeCleared(2, fresh, fresh), 'ok'],
    ['a third load around a purge', judgeCleared(3, fresh, fresh), 'fails'],
    ['a caller that joined the old load', judgeCleared(2, fresh, old), 'fails'],
    ['one failed load for each group of callers', judgeFailing(2, 1, [error(60)]), 'ok'],
    ['one failed load too many', judgeFailing(3, 1, [error(60)]), 'fails'],
    ['failed loads at the same time', judgeFailing(2, 2, [error(60)]), 'fails'],
    ['a late error', judgeFailing(2, 1, [error(251)]), 'fails'],
    ['a value of a failed load', judgeFailing(2, 1, [value(undefined)]), 'fails'],
    [
      'a hanging origin without a first result',
      judgeHanging(none, error(), { ...old, ...yes }),
      'ok',
    ],
    ['a hanging second caller', judgeHanging(error(), none, { ...old, ...yes }), 'fails'],
    ['hanging later callers', judgeHanging(error(), error(), { ...none, ...no }), 'fails'],
    ['an error, then a value', judgeThrown(error(), [error(), old], 9), 'ok'],
    ['no error', judgeThrown(value(undefined), [old], 9), 'fails'],
    ['an error as a value', judgeThrown(error(), [value(new Error('down')), old], 9), 'fails'],
    ['an error for ever', judgeThrown(error(), [error()], 9), 'fails'],
    ['a cold key that is loaded once', judgeMembers(1, ['"old"']), 'ok'],
    ['a cold key that is loaded twice', judgeMembers(2, ['"old"']), 'fails'],
    ['a caller without a result', judgeMembers(1, ['no result in 5000 ms']), 'fails'],
    ['purges that arrive', judgeLostMessage(yes, 9, yes), 'ok'],
    ['a purge before the cut that is lost', judgeLostMessage(no, 9, yes), 'fails'],
    ['a purge during the cut that is lost', judgeLostMessage(yes, 9, no), 'fails'],
    ['a late purge', judgeLostMessage(yes, 9, { reached: true, ms: 1_001 }), 'fails'],
    ['an outage with the options that help', judgeOutage(good, bad), 'ok'],
    ['an outage without a value', judgeOutage(bad, good), 'fails'],
    ['a refused read', judgeRefusedRead(old, 0), 'ok'],
    ['a refused read that deletes the key', judgeRefusedRead(old, 1), 'fails'],
    ['no unhandled rejection', withRejections(decide([true], 'new'), []), 'ok'],
    ['an unhandled rejection', withRejections(decide([true], 'new'), ['Error: no']), 'fails'],
    ['a rejection in a row that is not tested', withRejections(notTested(''), ['Error']), 'fails'],
  ])('judges %s', (_what, verdict, kind) => {
    expect(verdict.kind).toBe(kind)
  })

  it('says what happened, also without the options that help', () => {
    const seen = overtaken(['"new"', '"old"', '"old"'], ['"new"'])
    expect(seen.seen).toContain('the loading process read 1 × "new", 2 × "old"')
    const plain = 'the default options of the client: cached key "old" in 1 ms, cold key no result'
    expect(judgeOutage(good, bad).seen).toContain(plain)
    expect(withRejections(seen, ['Error: no', 'Error: no']).seen).toContain('2 × unhandled')
  })
})

describe('the list of shortfalls', () => {
  const figure = (ms: number, never = false): Figure => ({
    label: 'end',
    value: ms,
    unit: 'ms',
    never,
  })
  const of = (...verdicts: Verdict[]) => {
    const columns = verdicts.map((verdict, index) => {
      const id = index === 0 ? 'ours' : 'theirs'
      return { peer: { id, name: id }, verdicts: [verdict] }
    })
    return shortfalls([{ id: 'T1', title: 'a purge' }], columns, 'ours')
  }
  const passed = (ms: number, never = false) => decide([true], '', [figure(ms, never)])

  it.each<[string, Verdict[], string[]]>([
    ['a row that fails', [decide([false], 'Old.')], ['T1, a purge: fails. Old.']],
    ['a row that was not tested', [notTested('No.')], ['T1, a purge: not tested. No.']],
    ['no row that passes', [decide([true], 'new')], []],
    ['a worse figure', [passed(300), passed(100)], ['T1, a purge, end: 300 ms; theirs 100 ms.']],
    ['no figure of a row that fails', [passed(300), decide([false], '', [figure(1)])], []],
    ['no small difference', [passed(300), passed(260)], []],
    [
      'a figure that was not reached in time',
      [passed(3_000, true), passed(5_000)],
      ['T1, a purge, end: not in 3000 ms; theirs 5000 ms.'],
    ],
  ])('has %s', (_what, verdicts, expected) => {
    expect(of(...verdicts)).toEqual(expected)
  })
})
