import { describe, expect, it } from 'vitest'
import type { AttemptEnd } from '../ports/idempotent-exchange.ts'
import { type Decisions, outcomeOf } from './running.ts'

const ALL = Array.from({ length: 400 }, (_, i) => 200 + i)
const UNDECIDED = [304, 401, 403, 407, 408, 421, 425, 429]
const KEPT = ALL.filter((status) => status < 500 && !UNDECIDED.includes(status))
const RELEASED = ALL.filter((status) => !KEPT.includes(status))

const headOf = (status: number) => ({
  status,
  headers: [
    ['location', '/orders/7'],
    ['set-cookie', 'a=1'],
  ] as const,
})
const body = Buffer.from('made')
const answered = (status: number): AttemptEnd => ({
  type: 'complete',
  head: headOf(status),
  body,
})
const cutOff = (status: number): AttemptEnd => ({ type: 'not-retained', head: headOf(status) })
const failed: AttemptEnd = { type: 'failed', error: new Error('no') }
const unanswered: AttemptEnd = { type: 'unanswered' }

const settle = (end: AttemptEnd, said: Partial<Decisions> = {}) =>
  outcomeOf(end, { verdict: undefined, keepsBody: true, holdsAll: false, ...said })

const whole = (status: number) => ({
  as: 'completed',
  kept: { type: 'response', status, headers: [['location', '/orders/7']], body },
})
const marker = (status: number) => ({
  as: 'completed',
  kept: { type: 'response', status, headers: [['location', '/orders/7']], body: undefined },
})
const RELEASE = { as: 'released' }
const UNCERTAIN = { as: 'uncertain' }

describe('a response without a decision of the handler', () => {
  it('is kept if its status decides the request', () => {
    for (const status of KEPT) {
      expect(settle(answered(status)), String(status)).toEqual(whole(status))
      expect(settle(cutOff(status)), String(status)).toEqual(marker(status))
    }
  })

  it('is released if its status is temporary or a server fault', () => {
    for (const status of RELEASED) {
      expect(settle(answered(status)), String(status)).toEqual(RELEASE)
      expect(settle(cutOff(status)), String(status)).toEqual(RELEASE)
    }
  })

  it('is released after an error, and not settled if there is none', () => {
    expect(settle(failed)).toEqual(RELEASE)
    expect(settle(unanswered)).toBeUndefined()
  })
})

describe('attempt.keep()', () => {
  const verdict = 'keep'

  it('keeps every status', () => {
    for (const status of ALL) {
      expect(settle(answered(status), { verdict })).toEqual(whole(status))
      expect(settle(cutOff(status), { verdict })).toEqual(marker(status))
    }
  })

  it('makes the outcome uncertain after an error', () => {
    expect(settle(failed, { verdict })).toEqual(UNCERTAIN)
    expect(settle(unanswered, { verdict })).toBeUndefined()
  })
})

describe.each([
  ['release', RELEASE],
  ['uncertain', UNCERTAIN],
] as const)('attempt.%s()', (verdict, outcome) => {
  it('decides in any case, with or without a response', () => {
    for (const status of ALL) {
      expect(settle(answered(status), { verdict })).toEqual(outcome)
      expect(settle(cutOff(status), { verdict })).toEqual(outcome)
    }
    expect(settle(failed, { verdict })).toEqual(outcome)
    expect(settle(unanswered, { verdict })).toEqual(outcome)
    expect(settle(answered(200), { verdict, keepsBody: false })).toEqual(outcome)
  })
})

describe('attempt.withoutBody()', () => {
  it('keeps the status and location, and changes nothing else', () => {
    for (const status of KEPT) {
      expect(settle(answered(status), { keepsBody: false })).toEqual(marker(status))
    }
    for (const status of RELEASED) {
      expect(settle(answered(status), { keepsBody: false })).toEqual(RELEASE)
    }
    expect(settle(answered(503), { keepsBody: false, verdict: 'keep' })).toEqual(marker(503))
  })
})

it('the location of a response is undefined without a Location field', () => {
  const end: AttemptEnd = { type: 'not-retained', head: { status: 200, headers: [] } }
  expect(settle(end)).toEqual({
    as: 'completed',
    kept: { type: 'response', status: 200, headers: [], body: undefined },
  })
})
