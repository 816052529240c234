import { expect, it } from 'vitest'
import { isExtension, readExtension } from './extension-message.ts'

const clock = () => ({ agoAtMost: (ms: number): number | undefined => 1_000 - ms })
const write = (head: string, key = 'k\n\0ü', patch = Buffer.from([0, 255, 10])) =>
  Buffer.concat([Buffer.from(`${head} ${Buffer.byteLength(key)}\n${key}`), patch])
const HEAD = 'x other 5 7 900 500 20 30 40 600'

it('reads what is left of it', () => {
  const message = write(HEAD)
  expect(isExtension(message)).toBe(true)
  expect(readExtension(message, 'me', clock)).toEqual({
    key: 'k\n\0ü',
    fromFence: '5',
    toFence: '7',
    patch: Buffer.from([0, 255, 10]),
    lifetimes: {
      freshMs: 400,
      staleWhileRevalidateMs: 20,
      staleIfErrorMs: 30,
      keepMs: 40,
      physicalMs: 500,
    },
  })
})

it('is no news of its own process, when it is over, or when it cannot be known how old it is', () => {
  expect(readExtension(write(HEAD), 'other', clock)).toBeUndefined()
  expect(readExtension(write(HEAD.replace('500', '100')), 'me', clock)).toBeUndefined()
  expect(readExtension(write(HEAD), 'me', () => ({ agoAtMost: () => undefined }))).toBeUndefined()
})

it.each([
  'x',
  'x\n',
  `${HEAD}\n`,
  `${HEAD} 99\nk`,
  `${HEAD} 0\nk`,
  `${HEAD} x\nk`,
  `${HEAD} -1\nk`,
])('is none: %j', (message) =>
  expect(readExtension(Buffer.from(message), 'me', clock)).toBeUndefined(),
)

it('takes no purge for one', () => {
  expect(isExtension(Buffer.from('20 10 mhx'))).toBe(false)
  expect(isExtension(Buffer.alloc(0))).toBe(false)
})
