// Types that callers get, checked by the compiler.

import { expectTypeOf, it } from 'vitest'
import type { Stampede, Stored } from '../index.ts'
import type { Serializer } from './value.ts'

interface Product {
  id: string
  price?: number
  at: Date
  tags: string[]
  note: string | undefined
}

it('Stored<T> is the type after JSON and freezing', () => {
  expectTypeOf<Stored<string>>().toEqualTypeOf<string>()
  expectTypeOf<Stored<string | null>>().toEqualTypeOf<string | null>()
  expectTypeOf<Stored<Date>>().toEqualTypeOf<string>()
  expectTypeOf<Stored<Uint8Array>>().toEqualTypeOf<Buffer>()
  expectTypeOf<Stored<(number | undefined)[]>>().toEqualTypeOf<readonly (number | null)[]>()
  expectTypeOf<Stored<[Date, number]>>().toEqualTypeOf<readonly [string, number]>()
  expectTypeOf<Stored<unknown>>().toEqualTypeOf<unknown>()
  expectTypeOf<Stored<Map<string, number>>>().toEqualTypeOf<never>()
  expectTypeOf<Stored<bigint>>().toEqualTypeOf<never>()
  expectTypeOf<Stored<Product>>().toEqualTypeOf<{
    readonly id: string
    readonly price?: number
    readonly at: string
    readonly tags: readonly string[]
    readonly note?: string
  }>()
  expectTypeOf<Stored<Record<string, Date>>>().toEqualTypeOf<{ readonly [name: string]: string }>()
  // biome-ignore lint/suspicious/noExplicitAny: members of any type stay as they are
  expectTypeOf<Stored<{ a: any }>>().toEqualTypeOf<{ readonly a: any }>()
  expectTypeOf<Stored<{ bytes: Uint8Array }>>().toEqualTypeOf<{ readonly bytes: never }>()
  expectTypeOf<Stored<Buffer[]>>().toEqualTypeOf<
    ReadonlyArray<{ readonly type: 'Buffer'; readonly data: readonly number[] }>
  >()
})

it('Stored<T> is the value type of a cache, or T itself with a serializer', () => {
  const calls = (stampede: Stampede, serializer: Serializer) => {
    const plain = stampede.cache('a', { ttlMs: 1 })
    const exact = stampede.cache('b', { ttlMs: 1, serializer })
    return [plain.getOrSet('k', () => new Date()), exact.getOrSet('k', () => new Date())] as const
  }
  expectTypeOf(calls).returns.toEqualTypeOf<readonly [Promise<string>, Promise<Date>]>()
})
