// The contracts of the stores over one client library. They run side by side, because most of
// their time is waiting.
import type { StampedeStore } from '@stampede/core'
import {
  idempotencyStoreContract,
  lockStoreContract,
  storeContract,
  storeOperatorContract,
} from '@stampede/testkit'
import { describe } from 'vitest'

const pass = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** `open` gives the stores of two processes on the same, empty data. It is called in the tests. */
export function allContracts(
  name: string,
  open: () => { a: StampedeStore; b: StampedeStore },
): void {
  sideBySide(`${name}, entries`, () => storeContract(name, { pass, open: async () => open() }))
  sideBySide(`${name}, locks`, () => {
    const two = async () => {
      const { a, b } = open()
      return { a: a.locks, b: b.locks }
    }
    lockStoreContract(name, { pass, open: two })
  })
  sideBySide(`${name}, operators`, () =>
    storeOperatorContract(name, { pass, open: async () => open() }),
  )
  for (const half of [0, 1] as const) {
    const two = async () => {
      const { a, b } = open()
      return { a: a.idempotency, b: b.idempotency }
    }
    sideBySide(`${name}, idempotency, half ${half + 1}`, () =>
      idempotencyStoreContract(name, { pass, open: two }, half),
    )
  }
}

/** Runs beside other suites. Its own tests run one after another. */
export function sideBySide(title: string, contract: () => void): void {
  describe.concurrent(title, () => {
    describe.sequential('tests that run one after another', contract)
  })
}
