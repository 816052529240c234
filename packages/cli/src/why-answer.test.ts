import type { StoreOperator } from '@stampede/core/store'
import type { entryFacts } from '@stampede/operate'
import { expect, it } from 'vitest'
import type { EntryState, RecordView } from './records.ts'
import { answerOf, type Findings } from './why-answer.ts'

type EntryFacts = NonNullable<Awaited<ReturnType<typeof entryFacts>>>
type RecordInfo = NonNullable<Awaited<ReturnType<StoreOperator['inspect']>>>

const INFO: RecordInfo = {
  key: 'http:k',
  frame: Buffer.from('x'),
  ageMs: 3_000,
  freshForMs: 57_000,
  staleWhileRevalidateMs: 0,
  staleIfErrorMs: 0,
  keepMs: 0,
  deletedInMs: 60_000,
  fence: '1',
  bytes: 100,
}
const FACTS: EntryFacts = {
  type: 'response',
  status: 200,
  headers: [],
  vary: [],
  body: Buffer.from('x'),
  tags: [],
  tookMs: 5,
  purges: [],
  isFromLostHistory: false,
}

function answer(
  state: EntryState,
  info: Partial<RecordInfo> | undefined,
  more: Partial<Findings> & { facts?: Partial<EntryFacts> } = {},
): string {
  const { facts = {}, ...rest } = more
  const hasEntry = state !== 'none' && state !== 'unreadable'
  const record: RecordView = {
    key: 'http:k',
    state,
    info: info && { ...INFO, ...info },
    facts: hasEntry ? { ...FACTS, ...facts } : undefined,
  }
  const findings = {
    url: 'URL',
    prefix: 'shop',
    bypass: undefined,
    record,
    events: [],
    otherUrl: undefined,
    variants: undefined,
  }
  return answerOf({ ...findings, ...rest })
}

it('says that a response expired only if the event has the key that was read', () => {
  const committed = (id: string) => ({
    events: [{ type: 'fill.committed', at: Date.now() - 4_000, key: 'k', id, fields: {} }],
  })
  expect(answer('none', undefined, committed('http:k'))).toContain('has expired or was evicted')
  expect(answer('none', undefined, committed('http:k\0i3:ann'))).not.toContain('expired')
  const group = answer('none', { variants: true }, committed('http:k'))
  expect(group).not.toContain('expired')
  expect(group).toContain('responses were stored for other variants of this URL')
})

const purge = (soft: boolean) =>
  ({ by: 'tag', subject: 't', soft, at: Date.now() - 5_000 }) as const
const event = (type: string, fields = {}) => ({
  events: [{ type, at: Date.now() - 4_000, key: 'k', id: 'http:k', fields }],
})

it.each([
  [
    'a hit',
    answer('fresh', {}),
    'is a hit: the response was stored 3.0 s ago and is fresh for 57 s',
  ],
  ['stale', answer('stale', { freshForMs: -2_000 }), 'is served stale'],
  ['stale-if-error', answer('stale-if-error', { freshForMs: -2_000 }), 'if the handler fails'],
  ['kept for a 304', answer('expired', { freshForMs: -2_000 }), 'only a 304 of the handler'],
  [
    'purged',
    answer('purged', {}, { facts: { purges: [purge(false)] } }),
    'was purged by tag t, 5.0 s ago',
  ],
  [
    'purged softly',
    answer('stale', { freshForMs: 57_000 }, { facts: { purges: [purge(true)] } }),
    'stale since its purge by tag t (soft), 5.0 s ago',
  ],
  ['from a lost history', answer('purged', {}, { facts: { isFromLostHistory: true } }), 'lost'],
  ['unreadable', answer('unreadable', {}), 'this version cannot read'],
  ['hit-for-miss', answer('none', { passForMs: 9_000 }), 'hit-for-miss ends in 9.0 s'],
  [
    'a shared failure',
    answer('none', { failure: { status: 503, message: 'down', forMs: 900 } }),
    'gets the failure that requests share: 503 down, for 900 ms more',
  ],
  [
    'a running fill',
    answer('none', { lease: { remainingMs: 2_000, waiters: 1 } }),
    'lease: 2.0 s left, 1 process waiting',
  ],
  ['a bypass', answer('fresh', {}, { bypass: 'cookie' }), 'bypasses the cache'],
  ['the other scheme', answer('none', undefined, { otherUrl: 'http://a/' }), 'http://a/ is stored'],
  [
    'a response that was not stored',
    answer('none', undefined, event('fill.passed', { reason: 'private' })),
    '#cache-control-of-the-response) 4.0 s ago',
  ],
  [
    'a failed run',
    answer('none', undefined, event('fill.failed', { failure: '500 oops' })),
    'failed (500 oops) 4.0 s ago',
  ],
  [
    'a failed run without a message',
    answer('none', undefined, event('fill.failed', { failure: 502 })),
    'failed (502) 4.0 s ago',
  ],
  [
    'a refused commit',
    answer('none', undefined, event('fill.fenced')),
    'refused the last response',
  ],
  [
    'a purge by key',
    answer('none', undefined, event('entry.purged')),
    'the key was purged 4.0 s ago',
  ],
  [
    'an evicted entry',
    answer('none', undefined, event('fill.committed')),
    'evicted; it was stored 4.0 s ago',
  ],
  [
    'a response that was not kept',
    answer('none', {}),
    'is a miss: it was requested, but its last response was not kept; read `detail` in its Cache-Status',
  ],
  ['nothing', answer('none', undefined), 'nothing is stored under its key'],
  ['nothing, for an app with a key', answer('none', undefined), 'add --key or --query'],
  ['nothing under this prefix', answer('none', undefined), '`--prefix` (now shop)'],
])('the answer for %s is one sentence with the reason', (_, sentence, reason) => {
  expect(sentence).toContain(reason)
  expect(sentence).toMatch(/^A request for URL .*[^.]\.$/)
})
