// The lock store contract × the stores: memory, and Redis by each major of ioredis.

import { lockStoreContract } from '@stampede/testkit'
import { onEveryStore } from '../harness/every-store.ts'

onEveryStore(lockStoreContract, ({ locks }) => locks)
