// The contract of a store operator × the stores: memory, and Redis by ioredis.
import { storeOperatorContract } from '@stampede/testkit'
import { onEveryStore } from '../harness/every-store.ts'

onEveryStore(storeOperatorContract, (store) => store, [])
