import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Provenance } from '../entry/entry.ts'
import type { Mark } from '../ports/store.ts'
import { ALL, pathSubject, routeSubject, tagSubject } from '../ports/subject.ts'
import { PurgeMarks } from './purges.ts'

const PRODUCT: Provenance = {
  asOf: 10,
  tookMs: 0,
  subjects: [tagSubject('product:42'), tagSubject('products')],
  path: '/products/42',
  host: 'shop.example',
}
const mark = (subject: string, position: number, soft = false): Mark => ({
  subject,
  position,
  soft,
  agoMs: 0,
})
function after(...marks: readonly Mark[]): PurgeMarks {
  const all = new PurgeMarks()
  for (const each of marks) all.add(each, 500)
  return all
}

describe('an entry from before a purge', () => {
  it.each([
    ['of one of its tags', tagSubject('products')],
    ['of its path', pathSubject('/products/42', undefined)],
    ['of its path on its host', pathSubject('/products/42', 'SHOP.example')],
    ['of its route', routeSubject('/products/:id')],
    ['of everything', ALL],
  ])('is outdated if the purge is %s', (_, subject) => {
    expect(after(mark(subject, 11)).judge(PRODUCT)).toBe('purged')
    expect(after(mark(subject, 11, true)).judge(PRODUCT)).toBe(500)
  })

  it.each([
    ['of another tag', tagSubject('product:4')],
    ['of a longer path', pathSubject('/products/42/reviews', undefined)],
    ['on another host', pathSubject('/products/42', 'shop.example:8080')],
    ['of another route', routeSubject('/products/:id/reviews')],
  ])('stays valid if the purge is %s', (_, subject) => {
    expect(after(mark(subject, 11)).judge(PRODUCT)).toBe('valid')
  })
})

it('lists the subjects of an entry once for all purges that are under way', () => {
  const marks = new PurgeMarks()
  const reads = (purges: number) => {
    let count = 0
    for (let i = 0; i < purges; i++) marks.expect(tagSubject(`other ${i}`))
    const subjects = PRODUCT.subjects
    marks.judge({
      ...PRODUCT,
      get subjects() {
        count += 1
        return subjects
      },
    })
    return count
  }
  expect(reads(1)).toBe(reads(50))
})

describe('known purges', () => {
  it('give the same state if they arrive twice, late or in another order', () => {
    const subjects = [ALL, tagSubject('products'), routeSubject('/products/*')]
    const anyMark = fc.record({
      subject: fc.constantFrom(...subjects),
      soft: fc.boolean(),
      position: fc.integer({ min: 1, max: 20 }),
      agoMs: fc.constant(0),
    })
    fc.assert(
      fc.property(fc.array(anyMark), fc.integer({ min: 0, max: 20 }), (marks, asOf) => {
        const shuffled = [...marks, ...marks].sort((a, b) => a.position * 7 - b.position * 3)
        const verdict = after(...shuffled).judge({ ...PRODUCT, asOf })
        const later = marks.filter(({ position }) => position > asOf)
        const hard = later.some(({ soft }) => !soft)
        expect(verdict).toBe(hard ? 'purged' : later.length > 0 ? 500 : 'valid')
      }),
    )
  })

  it('change the version only once, even if they arrive twice', () => {
    const marks = after(mark(ALL, 11))
    const { version } = marks
    marks.add(mark(ALL, 11), 900)
    marks.add(mark(ALL, 10), 900)
    expect(marks.version).toBe(version)
    marks.add(mark(ALL, 12), 900)
    expect(marks.version).toBeGreaterThan(version)
  })
})

describe('purge marks', () => {
  it('make all entries outdated that are older than the forgotten purges', () => {
    const marks = new PurgeMarks()
    marks.forgetBefore(11)
    expect(marks.judge(PRODUCT)).toBe('purged')
    expect(marks.judge({ ...PRODUCT, asOf: 11 })).toBe('valid')
    expect(marks.newest).toBe(11)
  })

  it('forget the oldest purges beyond a limit', () => {
    const marks = new PurgeMarks()
    for (let n = 1; n <= 100_001; n++) marks.add(mark(tagSubject(`tag${n}`), n), 0)
    expect(marks.size).toBe(100_000)
    const untagged: Provenance = { asOf: 0, tookMs: 0, subjects: [] }
    expect(marks.judge(untagged)).toBe('purged')
    expect(marks.judge({ ...untagged, asOf: 1 })).toBe('valid')
  })

  it('forget purges of routes beyond a lower limit, because each of those is compared', () => {
    const marks = new PurgeMarks()
    for (let n = 1; n <= 1_001; n++) marks.add(mark(routeSubject(`/r${n}/:id`), n), 0)
    expect(marks.size).toBe(1_000)
    expect(marks.judge({ ...PRODUCT, asOf: 0 })).toBe('purged')
  })

  it('are not compared with newer entries', () => {
    const marks = new PurgeMarks()
    for (let n = 0; n < 1_000; n++) marks.add(mark(routeSubject(`/products/:id/${n}/*`), n), 0)
    let looks = 0
    const made = (asOf: number): Provenance => ({
      ...PRODUCT,
      asOf,
      get path() {
        looks += 1
        return '/products/42/reviews/7'
      },
    })
    expect(marks.judge(made(1_000))).toBe('valid')
    expect(looks).toBe(0)
    marks.judge(made(998))
    expect(looks).toBeGreaterThan(0)
  })
})

describe('the purges that cover an entry', () => {
  it('are those after its fill, oldest first, with their subjects', () => {
    const marks = after(
      mark(tagSubject('products'), 9),
      mark(routeSubject('/products/:id'), 13, true),
      mark(tagSubject('products'), 12, true),
      mark(ALL, 11),
      mark(tagSubject('other'), 14),
    )
    const { purges, isFromLostHistory } = marks.covering(PRODUCT)
    expect(purges).toEqual([
      { by: 'all', subject: ALL, soft: false, position: 11 },
      { by: 'tag', subject: tagSubject('products'), soft: true, position: 12 },
      { by: 'route', subject: routeSubject('/products/:id'), soft: true, position: 13 },
    ])
    expect(isFromLostHistory).toBe(false)
    marks.forgetBefore(15)
    expect(marks.covering(PRODUCT).isFromLostHistory).toBe(true)
  })
})
