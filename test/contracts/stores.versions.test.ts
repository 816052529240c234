// The store contract × the stores: memory, and Redis by ioredis.

import { storeContract } from '@stampede/testkit'
import { onEveryStore } from '../harness/every-store.ts'

onEveryStore(storeContract, (store) => store)
