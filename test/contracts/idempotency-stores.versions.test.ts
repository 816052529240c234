// The idempotency store contract × the stores: memory, and Redis by ioredis.

import type { IdempotencyStore } from '@stampede/core/store'
import { idempotencyStoreContract } from '@stampede/testkit'
import { sideBySide } from '../harness/all-contracts.ts'
import { onEveryStore } from '../harness/every-store.ts'

// Two halves run side by side, because real time has to pass in them.
onEveryStore<IdempotencyStore>(
  (name, setUp) => {
    if (setUp.clock !== undefined) return idempotencyStoreContract(name, setUp)
    for (const half of [0, 1] as const) {
      sideBySide(`half ${half + 1}`, () => idempotencyStoreContract(name, setUp, half))
    }
  },
  ({ idempotency }) => idempotency,
)
