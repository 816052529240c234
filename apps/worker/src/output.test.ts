import { describe, expect, it } from 'vitest'
import { isExactlyOnce, sentence, type Tally, table } from './output.ts'

function tally(done: number): Tally {
  return {
    jobs: [
      { id: 1, done: 1, doneBy: 'worker 1', fence: '7' },
      { id: 2, done, doneBy: done === 0 ? null : 'worker 2', fence: '12' },
    ],
    deliveries: new Map([
      [1, 2],
      [2, 3],
    ]),
    refused: new Map([[2, 1]]),
  }
}

describe('the output of the demo', () => {
  it('has a sentence for each step that a reader needs, and none for the others', () => {
    expect(sentence('worker 1', 'begins', 3, 42n)).toBe(
      'worker 1 got the lock of job 3 with fence 42',
    )
    expect(sentence('worker 1', 'refused', 3, 42n)).toContain('too late with fence 42')
    expect(sentence('worker 1', 'halfway', 3, 42n)).toBeUndefined()
  })

  it('ends with a table', () => {
    expect(table(tally(1))).toMatchInlineSnapshot(`
      "
        job    deliveries  done  by        last fence  late writes refused
        job 1  2           1     worker 1  7           0
        job 2  3           1     worker 2  12          1

      2 jobs, 5 deliveries, 2 done once, 1 late write refused. Every job was done exactly once."
    `)
  })

  it.each([0, 2])('does not count a job with %d results as done once', (done) => {
    expect(isExactlyOnce(tally(done))).toBe(false)
    expect(table(tally(done))).toContain('NOT every job was done exactly once.')
    expect(table(tally(done))).toContain('1 done once')
  })

  it('does not report success for a run without jobs', () => {
    expect(isExactlyOnce({ ...tally(1), jobs: [] })).toBe(false)
  })
})
