import { describe, expect, it } from 'vitest'
import { judgeLostMessage, judgeMembers } from './scenarios/fleets.ts'
import { judgeFailingOrigin, judgeHangingOrigin, judgeThrown } from './scenarios/origins.ts'
import { judgeOutage, judgeRefusedRead } from './scenarios/outages.ts'
import { judgeCleared, judgeOvertaken, type Overtaken } from './scenarios/purges.ts'
import { decide, notTested, type Result, withRejections } from './verdict.ts'

const value = (of: unknown, ms = 1): Result => ({ kind: 'value', value: of, ms })
const error = (ms = 1): Result => ({ kind: 'error', message: 'down', ms })
const none: Result = { kind: 'none', ms: 5_000 }
const kind = (verdict: { kind: string }) => verdict.kind

describe('a purge during a load', () => {
  const round = (loader: string[], other: string[]): Overtaken => ({
    by: 'another process',
    purge: value(undefined),
    loader,
    other,
  })

  it('is ok if every read of both processes is new', () => {
    expect(kind(judgeOvertaken([round(['"new"'], ['"new"'])]))).toBe('ok')
  })

  it('fails if one read of either process is old, and names it', () => {
    expect(kind(judgeOvertaken([round(['"new"'], ['"old"'])]))).toBe('fails')
    const verdict = judgeOvertaken([round(['"new"', '"old"', '"old"'], ['"new"'])])
    expect(verdict.seen).toContain('the loading process read 1 × "new", 2 × "old"')
  })

  it('fails if callers joined the old load, or there was one load too many', () => {
    const both = { second: value('new'), third: value('new') }
    expect(kind(judgeCleared({ loads: 2, ...both }))).toBe('ok')
    expect(kind(judgeCleared({ loads: 3, ...both }))).toBe('fails')
    expect(kind(judgeCleared({ loads: 2, ...both, third: value('old') }))).toBe('fails')
  })
})

describe('an origin that fails or hangs', () => {
  it('fails the row if it is called more than once per group of callers, or a caller waits long', () => {
    const results = Array.from({ length: 30 }, () => error(60))
    expect(kind(judgeFailingOrigin({ loads: 2, mostAtOnce: 1, results }))).toBe('ok')
    expect(kind(judgeFailingOrigin({ loads: 3, mostAtOnce: 1, results }))).toBe('fails')
    expect(kind(judgeFailingOrigin({ loads: 2, mostAtOnce: 2, results }))).toBe('fails')
    expect(kind(judgeFailingOrigin({ loads: 2, mostAtOnce: 1, results: [error(251)] }))).toBe(
      'fails',
    )
    expect(kind(judgeFailingOrigin({ loads: 2, mostAtOnce: 1, results: [value(undefined)] }))).toBe(
      'fails',
    )
  })

  it('may leave its first caller without a result, but not later callers', () => {
    const later = { ...value('old'), reached: true }
    expect(kind(judgeHangingOrigin({ first: none, second: error(), later }))).toBe('ok')
    expect(kind(judgeHangingOrigin({ first: error(), second: none, later }))).toBe('fails')
    expect(
      kind(
        judgeHangingOrigin({ first: error(), second: error(), later: { ...none, reached: false } }),
      ),
    ).toBe('fails')
  })

  it('fails the row if an error becomes a value, or no value comes', () => {
    expect(kind(judgeThrown({ failed: error(), later: [error(), value('old')], backMs: 9 }))).toBe(
      'ok',
    )
    expect(kind(judgeThrown({ failed: value(undefined), later: [value('old')], backMs: 9 }))).toBe(
      'fails',
    )
    const poisoned = [value(new Error('down')), value('old')]
    expect(kind(judgeThrown({ failed: error(), later: poisoned, backMs: 9 }))).toBe('fails')
    expect(kind(judgeThrown({ failed: error(), later: [error()], backMs: 9 }))).toBe('fails')
  })
})

describe('a fleet with Redis', () => {
  it('is ok if it loads a cold key once', () => {
    expect(kind(judgeMembers({ processes: 4, loads: 1, results: ['"old"'] }))).toBe('ok')
    expect(kind(judgeMembers({ processes: 4, loads: 2, results: ['"old"'] }))).toBe('fails')
    expect(kind(judgeMembers({ processes: 4, loads: 1, results: ['no result in 5000 ms'] }))).toBe(
      'fails',
    )
  })

  it('fails if a process misses a purge before or after the cut', () => {
    const yes = { reached: true, ms: 5 }
    const no = { reached: false, ms: 8_000 }
    expect(kind(judgeLostMessage({ healthy: yes, resubscribedMs: 9, after: yes }))).toBe('ok')
    expect(kind(judgeLostMessage({ healthy: no, resubscribedMs: 9, after: yes }))).toBe('fails')
    expect(kind(judgeLostMessage({ healthy: yes, resubscribedMs: 9, after: no }))).toBe('fails')
    const late = { reached: true, ms: 1_001 }
    expect(kind(judgeLostMessage({ healthy: yes, resubscribedMs: 9, after: late }))).toBe('fails')
  })

  it('is judged with the options that help, and shows the result without them', () => {
    const good = { known: value('old'), cold: value('old') }
    const bad = { known: value('old'), cold: none }
    const verdict = judgeOutage({ guarded: good, plain: bad })
    expect(verdict.kind).toBe('ok')
    expect(verdict.seen).toContain(
      'With the default options of the client: cached key "old" in 1 ms, cold key no result',
    )
    expect(kind(judgeOutage({ guarded: bad, plain: good }))).toBe('fails')
  })

  it('fails if it deletes a key that it could not read', () => {
    expect(kind(judgeRefusedRead({ reader: value('old'), deletes: 0 }))).toBe('ok')
    expect(kind(judgeRefusedRead({ reader: value('old'), deletes: 1 }))).toBe('fails')
  })
})

describe('an unhandled rejection', () => {
  it('fails the row, also one that was not tested', () => {
    expect(withRejections(decide([true], 'new'), [])).toEqual(decide([true], 'new'))
    const failed = withRejections(decide([true], 'new'), ['Error: no', 'Error: no'])
    expect(failed).toMatchObject({ kind: 'fails', seen: expect.stringContaining('2 × unhandled') })
    expect(kind(withRejections(notTested('no tags'), ['Error: no']))).toBe('fails')
  })
})
