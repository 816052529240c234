import { describe, expect, it } from 'vitest'
import { paths } from './paths.ts'
import { requestsOf } from './requests.ts'

describe('paths', () => {
  it('have unique ids, and a path that divides another one is not divided itself', () => {
    const ids = paths.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    for (const { of } of paths) {
      if (of !== undefined) expect(paths.find(({ id }) => id === of)).toMatchObject({ id: of })
      expect(paths.find(({ id }) => id === of)?.of).toBeUndefined()
    }
  })

  it('send a new target or key with each request that must be the first of its kind', () => {
    for (const kind of ['new', 'private-new', 'order'] as const) {
      const next = requestsOf(kind)
      expect(String(next())).not.toBe(String(next()))
    }
    const repeated = requestsOf('repeated-order')
    expect(repeated()).toBe(repeated())
  })
})
