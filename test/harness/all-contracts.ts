// The contracts of the three stores over one client library: side by side, because most of their time is waiting.
import type { StampedeStore } from '@stampede/core'
import { idempotencyStoreContract, lockStoreContract, storeContract } from '@stampede/testkit'
import { describe } from 'vitest'

/** `open` gives stores of two processes on the same, empty data; called in the tests. */
export function allContracts(
  name: string,
  open: () => { a: StampedeStore; b: StampedeStore },
): void {
  const pass = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
  describe.concurrent(`${name}, entries`, () => {
    describe.sequential('alone', () => storeContract(name, { pass, open: async () => open() }))
  })
  describe.concurrent(`${name}, locks`, () => {
    describe.sequential('alone', () =>
      lockStoreContract(name, {
        pass,
        async open() {
          const { a, b } = open()
          return { a: a.locks, b: b.locks }
        },
      }))
  })
  describe.concurrent(`${name}, idempotency`, () => {
    describe.sequential('alone', () =>
      idempotencyStoreContract(name, {
        pass,
        async open() {
          const { a, b } = open()
          return { a: a.idempotency, b: b.idempotency }
        },
      }))
  })
}
