// `stampedeFront` before Express 5. Hits do not reach Express.
import type { RequestListener } from 'node:http'
import { stampedeFront } from '@stampede/node-http'
import type { Origin } from '../subject.ts'
import { listener as uncached } from './express-uncached.ts'

export const listener = (origin: Origin): RequestListener =>
  stampedeFront(uncached(origin), { ttlMs: 3_600_000 })
