// The contracts of the stores over one client library.
import type { StampedeStore } from '@stampede/core'
import {
  idempotencyStoreContract,
  lockStoreContract,
  storeContract,
  storeOperatorContract,
} from '@stampede/testkit'

interface SetUp {
  /** The stores of two processes on the same, empty data. It is called in the tests. */
  open(): { a: StampedeStore; b: StampedeStore }
  pass(ms: number): Promise<void>
}

export function allContracts(name: string, { open, pass }: SetUp): void {
  storeContract(name, { pass, open: async () => open() })
  lockStoreContract(name, {
    pass,
    async open() {
      const { a, b } = open()
      return { a: a.locks, b: b.locks }
    },
  })
  storeOperatorContract(name, { pass, open: async () => open() })
  idempotencyStoreContract(name, {
    pass,
    async open() {
      const { a, b } = open()
      return { a: a.idempotency, b: b.idempotency }
    },
  })
}
