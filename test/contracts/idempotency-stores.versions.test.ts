// The idempotency store contract × the stores: memory, and Redis by ioredis.

import { idempotencyStoreContract } from '@stampede/testkit'
import { onEveryStore } from '../harness/every-store.ts'

onEveryStore(idempotencyStoreContract, ({ idempotency }) => idempotency)
