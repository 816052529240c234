import { describe, expect, it } from 'vitest'
import { judgeLostMessage, judgeMembers } from './scenarios/fleets.ts'
import { judgeConvoy, judgeHang, judgeThrown } from './scenarios/origins.ts'
import { judgeOutage, judgeRefusedRead } from './scenarios/outages.ts'
import { judgeCleared, judgeOvertaken, type Overtaken } from './scenarios/purges.ts'
import { type Answer, decide, notAsked, withAccidents } from './verdict.ts'

const value = (of: unknown, ms = 1): Answer => ({ kind: 'value', value: of, ms })
const error = (ms = 1): Answer => ({ kind: 'error', message: 'down', ms })
const none: Answer = { kind: 'none', ms: 5_000 }
const kind = (verdict: { kind: string }) => verdict.kind

describe('a purge that overtakes a load', () => {
  const round = (loader: string[], other: string[]): Overtaken => ({
    by: 'another process',
    purge: value(undefined),
    loader,
    other,
  })

  it('is ok when every read of every process is new', () => {
    expect(kind(judgeOvertaken([round(['"new"'], ['"new"'])]))).toBe('ok')
  })

  it('fails by one old read of either, which it names', () => {
    expect(kind(judgeOvertaken([round(['"new"'], ['"old"'])]))).toBe('fails')
    const verdict = judgeOvertaken([round(['"new"', '"old"', '"old"'], ['"new"'])])
    expect(verdict.seen).toContain('the loading process read 1 × "new", 2 × "old"')
  })

  it('fails when callers joined the old load, or there was one load too many', () => {
    const both = { second: value('new'), third: value('new') }
    expect(kind(judgeCleared({ loads: 2, ...both }))).toBe('ok')
    expect(kind(judgeCleared({ loads: 3, ...both }))).toBe('fails')
    expect(kind(judgeCleared({ loads: 2, ...both, third: value('old') }))).toBe('fails')
  })
})

describe('an origin in trouble', () => {
  it('is called once for each crowd, and nobody waits in a line', () => {
    const answers = Array.from({ length: 30 }, () => error(60))
    expect(kind(judgeConvoy({ loads: 2, mostAtOnce: 1, answers }))).toBe('ok')
    expect(kind(judgeConvoy({ loads: 3, mostAtOnce: 1, answers }))).toBe('fails')
    expect(kind(judgeConvoy({ loads: 2, mostAtOnce: 2, answers }))).toBe('fails')
    expect(kind(judgeConvoy({ loads: 2, mostAtOnce: 1, answers: [error(251)] }))).toBe('fails')
    expect(kind(judgeConvoy({ loads: 2, mostAtOnce: 1, answers: [value(undefined)] }))).toBe(
      'fails',
    )
  })

  it('may leave the first caller of a load that hangs, not those who come after', () => {
    const later = { ...value('old'), reached: true }
    expect(kind(judgeHang({ first: none, second: error(), later }))).toBe('ok')
    expect(kind(judgeHang({ first: error(), second: none, later }))).toBe('fails')
    expect(
      kind(judgeHang({ first: error(), second: error(), later: { ...none, reached: false } })),
    ).toBe('fails')
  })

  it('is told as an error, and never becomes a value', () => {
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

describe('a fleet and its Redis', () => {
  it('loads a cold key once', () => {
    expect(kind(judgeMembers({ processes: 4, loads: 1, answers: ['"old"'] }))).toBe('ok')
    expect(kind(judgeMembers({ processes: 4, loads: 2, answers: ['"old"'] }))).toBe('fails')
    expect(kind(judgeMembers({ processes: 4, loads: 1, answers: ['no result in 5000 ms'] }))).toBe(
      'fails',
    )
  })

  it('hears of what it missed, and heard of it before', () => {
    const yes = { reached: true, ms: 5 }
    const no = { reached: false, ms: 8_000 }
    expect(kind(judgeLostMessage({ healthy: yes, resubscribedMs: 9, after: yes }))).toBe('ok')
    expect(kind(judgeLostMessage({ healthy: no, resubscribedMs: 9, after: yes }))).toBe('fails')
    expect(kind(judgeLostMessage({ healthy: yes, resubscribedMs: 9, after: no }))).toBe('fails')
    const late = { reached: true, ms: 1_001 }
    expect(kind(judgeLostMessage({ healthy: yes, resubscribedMs: 9, after: late }))).toBe('fails')
  })

  it('is judged with the options that help, and tells what comes without', () => {
    const good = { known: value('old'), cold: value('old') }
    const bad = { known: value('old'), cold: none }
    const verdict = judgeOutage({ guarded: good, plain: bad })
    expect(verdict.kind).toBe('ok')
    expect(verdict.seen).toContain(
      'With the default options of the client: cached key "old" in 1 ms, cold key no result',
    )
    expect(kind(judgeOutage({ guarded: bad, plain: good }))).toBe('fails')
  })

  it('deletes nothing that it could not read', () => {
    expect(kind(judgeRefusedRead({ reader: value('old'), deletes: 0 }))).toBe('ok')
    expect(kind(judgeRefusedRead({ reader: value('old'), deletes: 1 }))).toBe('fails')
  })
})

describe('an unhandled rejection', () => {
  it('fails whatever else was seen, also what was not asked', () => {
    expect(withAccidents(decide([true], 'new'), [])).toEqual(decide([true], 'new'))
    const failed = withAccidents(decide([true], 'new'), ['Error: no', 'Error: no'])
    expect(failed).toMatchObject({ kind: 'fails', seen: expect.stringContaining('2 × unhandled') })
    expect(kind(withAccidents(notAsked('no tags'), ['Error: no']))).toBe('fails')
  })
})
