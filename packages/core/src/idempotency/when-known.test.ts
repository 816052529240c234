import { expect, it } from 'vitest'
import { whenKnown } from './when-known.ts'

/** A thenable that settles later and whose then() returns undefined, which `await` accepts. */
function thenable(how: 'resolve' | 'reject'): Promise<string> {
  const then = (resolve: (value: string) => void, reject: (error: Error) => void): void => {
    const settle = () => (how === 'resolve' ? resolve('value') : reject(new Error('refused')))
    queueMicrotask(settle)
  }
  return { then } as unknown as Promise<string>
}

it('whenKnown continues at once with a value, and later with a promised one', async () => {
  expect(whenKnown('value', (value) => `${value}!`)).toBe('value!')
  expect(await whenKnown(Promise.resolve('value'), (value) => `${value}!`)).toBe('value!')
})

it('whenKnown waits for a thenable, and passes on its errors and those of the next stage', async () => {
  expect(await whenKnown(thenable('resolve'), (value) => `${value}!`)).toBe('value!')
  await expect(whenKnown(thenable('reject'), () => '')).rejects.toThrow('refused')
  const throwing = (value: string): never => {
    throw new Error(value)
  }
  await expect(whenKnown(thenable('resolve'), throwing)).rejects.toThrow('value')
})
