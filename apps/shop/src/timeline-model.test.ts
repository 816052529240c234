// Tests of the model behind the drawing of the lab page.

import { describe, expect, it } from 'vitest'
import { storyOf } from '../public/story.js'
import { modelOf } from '../public/timeline-model.js'

const event = (
  atMs: number,
  process: number | undefined,
  type: string,
  fields: Record<string, string> = {},
) => ({ atMs, process, type, count: 1, fields })

/** Process 1 is frozen with the lease, and process 2 takes over. */
const TAKEOVER = [
  event(-50, 1, 'entry.hit', { stale: 'false' }),
  event(0, undefined, 'lab.burst', { requests: '50' }),
  event(10, 1, 'lease.granted', { fence: '1' }),
  event(10, 1, 'fill.started', { fence: '1' }),
  event(12, 2, 'wait.started'),
  event(100, 1, 'lab.frozen'),
  event(2000, 2, 'wait.ended', { by: 'lease-end' }),
  event(2010, 2, 'lease.granted', { fence: '2' }),
  event(2010, 2, 'fill.started', { fence: '2' }),
  event(2310, 2, 'fill.committed', { fence: '2' }),
  event(3000, 1, 'lab.resumed'),
  event(3020, 1, 'fill.fenced', { fence: '1' }),
]

describe('modelOf', () => {
  const spansOf = (events: object[], index: number) =>
    modelOf(events, 2).rows[index]?.spans.map(({ kind, from, to }) => [kind, from, to])

  it('ends the lease of a holder when another process gets one', () => {
    expect(spansOf(TAKEOVER, 0)).toEqual([
      ['work', 10, 2010],
      ['frozen', 100, 3000],
      ['late', 2010, 3020],
    ])
    expect(spansOf(TAKEOVER, 1)).toEqual([
      ['work', 2010, 2310],
      ['wait', 12, 2000],
    ])
  })

  it('marks commits, and leaves out what was before the requests', () => {
    const { rows, database, endMs } = modelOf([...TAKEOVER].reverse(), 2)
    expect(rows.map(({ marks }) => marks.map(({ kind }) => kind))).toEqual([
      ['refused'],
      ['commit'],
    ])
    expect(database.marks.map((mark: { at: number }) => mark.at)).toEqual([10, 2010])
    expect(endMs).toBe(3020)
  })

  it('leaves the spans open that have not ended', () => {
    expect(spansOf(TAKEOVER.slice(0, 6), 0)).toEqual([
      ['work', 10, undefined],
      ['frozen', 100, undefined],
    ])
  })

  it('shows a run without a lease as such', () => {
    expect(spansOf([event(5, 2, 'fill.started')], 1)).toEqual([['unleased', 5, undefined]])
  })
})

describe('storyOf', () => {
  it('has a sentence per event, and equal hits of a process together', () => {
    const hits = [1, 2].map((at) => event(4000 + at, 2, 'entry.hit', { stale: 'true' }))
    const texts = storyOf([...TAKEOVER.slice(1), ...hits]).map(({ text }) => text)
    expect(texts).toContain('50 requests arrive')
    expect(texts).toContain('Process 1 has its commit refused, because its lease is over')
    expect(texts.at(-1)).toBe('Process 2 serves 2 stale responses')
  })
})
