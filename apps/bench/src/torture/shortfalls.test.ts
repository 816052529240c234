import { describe, expect, it } from 'vitest'
import { type Column, shortfalls } from './shortfalls.ts'
import { decide, type Figure, notTested, type Verdict } from './verdict.ts'

const scenarios = [{ id: 'T1', title: 'a purge' }]
const figure = (value: number, rest: Partial<Figure> = {}): Figure => ({
  label: 'until it is over',
  value,
  unit: 'ms',
  ...rest,
})
const column = (id: string, ...verdicts: Verdict[]): Column => ({
  peer: { id, name: id },
  verdicts,
})
const of = (...columns: Column[]) => shortfalls(scenarios, columns, 'ours')

describe('shortfalls', () => {
  it('list a row that fails or was not tested', () => {
    expect(of(column('ours', decide([false], 'Old.')))).toEqual(['T1, a purge: fails. Old.'])
    expect(of(column('ours', notTested('No tags.')))).toEqual(['T1, a purge: not tested. No tags.'])
    expect(of(column('ours', decide([true], 'new')))).toEqual([])
  })

  it('list a figure in which another passing cache is better', () => {
    const ours = column('ours', decide([true], '', [figure(300)]))
    expect(of(ours, column('theirs', decide([true], '', [figure(100)])))).toEqual([
      'T1, a purge, until it is over: 300 ms; theirs 100 ms.',
    ])
    expect(of(ours, column('theirs', decide([false], '', [figure(100)])))).toEqual([])
    expect(of(ours, column('theirs', decide([true], '', [figure(260)])))).toEqual([])
  })

  it('list a figure that was not reached in time', () => {
    const ours = column('ours', decide([true], '', [figure(3_000, { never: true })]))
    const late = column('theirs', decide([true], '', [figure(5_000)]))
    expect(of(ours, late)).toEqual([
      'T1, a purge, until it is over: not in 3000 ms; theirs 5000 ms.',
    ])
    expect(of(column('ours', decide([true], '', [figure(9)])), ours)).toEqual([])
  })
})
