// Server that measures the memory of a stored response. Usage: node --expose-gc pages-member.js.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createStampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import express from 'express'
import { offer } from '../lib/child.ts'
import { product } from '../lib/product.ts'
import { memoryInUse } from './memory.ts'

export interface PagesSeen {
  readonly entries: number
  readonly memoryBytes: number
  /** The bytes that L1 counts for its entries. */
  readonly countedBytes: number
}

const stampede = createStampede({ l1: { maxBytes: 2 ** 34 } })
const app = express()
app.get('/products/:id', stampedeCache({ stampede, ttlMs: 3_600_000 }), (_req, res) => {
  res.json(product)
})
const server = createServer(app).listen(0, '127.0.0.1')
await once(server, 'listening')

offer({
  port: () => (server.address() as AddressInfo).port,
  seen(): PagesSeen {
    const { entries, bytes } = stampede.stats().l1
    return { entries, countedBytes: bytes, memoryBytes: memoryInUse() }
  },
})
