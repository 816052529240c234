import { describe, expect, it } from 'vitest'
import type { HeaderList } from '../ports/exchange.ts'
import { lacksValidator, mintEtag } from './conditional.ts'

const bytes = (text: string) => Buffer.from(text)
const mint = (whole?: Uint8Array, headers: HeaderList = [], status = 200, fence = '17') =>
  lacksValidator({ status, headers }) ? mintEtag(whole, fence) : undefined

describe('an ETag that the cache adds', () => {
  it('is weak, and computed from the bytes if they are known', () => {
    expect(mint(bytes('a'))).toMatch(/^W\/"[\w-]{22}"$/)
    expect(mint(bytes('a'))).toBe(mint(bytes('a'), [], 200, '18'))
    expect(mint(bytes('a'))).not.toBe(mint(bytes('b')))
    expect(mint(new Uint8Array())).toMatch(/^W\/"[\w-]{22}"$/)
  })

  it('is computed from the fence of the fill if the bytes are not known', () => {
    expect(mint()).toMatch(/^W\/"s-[\w-]{22}"$/)
    expect(mint()).toBe(mint())
    expect(mint()).not.toBe(mint(undefined, [], 200, '18'))
  })

  it.each([
    ['etag', '"a"'],
    ['etag', ''],
    ['last-modified', 'Sun, 06 Nov 1994 08:49:37 GMT'],
  ] as const)('is not added to a response with %s: %s', (...field) => {
    expect(mint(bytes('a'), [field])).toBeUndefined()
    expect(mint(undefined, [field])).toBeUndefined()
  })

  it.each([203, 204, 206, 301, 404])(
    'is not added to a %d, for which no 304 is ever sent',
    (status) => {
      expect(mint(bytes('a'), [], status)).toBeUndefined()
    },
  )
})
