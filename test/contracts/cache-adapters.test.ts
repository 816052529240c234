// The contract of a caching adapter × the frameworks, and × stampedeFront before them.
import { cacheAdapterContract } from '@stampede/testkit'
import { frameworks } from '../harness/apps.ts'

for (const framework of frameworks) cacheAdapterContract(framework)
