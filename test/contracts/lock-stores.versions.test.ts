// The lock store contract × the stores: memory, and Redis by ioredis.

import { lockStoreContract } from '@stampede/testkit'
import { onEveryStore } from '../harness/every-store.ts'

onEveryStore(lockStoreContract, ({ locks }) => locks)
