// Ours in front of Express 5: hits do not reach it.
import type { RequestListener } from 'node:http'
import * as nodeHttp from '@stampede/node-http'
import type { Origin } from '../subject.ts'
import { listener as uncached } from './express-uncached.ts'

type Front = (listener: RequestListener, options: { ttlMs: number }) => RequestListener

export function listener(origin: Origin): RequestListener {
  const { stampedeFront } = nodeHttp as unknown as { stampedeFront: Front }
  return stampedeFront(uncached(origin), { ttlMs: 3_600_000 })
}

export const hasFront = (): boolean => 'stampedeFront' in nodeHttp
