// The server process of one row. Usage: node serve.js <module> <Redis URL>.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { offer } from '../lib/child.ts'
import { product } from '../lib/product.ts'
import type { ServerModule } from './subject.ts'

export interface Usage {
  readonly originCalls: number
  readonly cpuMicros: number
}

const [, , module = '', redisUrl = ''] = process.argv
const { listener } = (await import(`./servers/${module}.js`)) as ServerModule
let originCalls = 0
const server = createServer(
  listener(() => {
    originCalls += 1
    return product
  }, redisUrl),
).listen(0, '127.0.0.1')
await once(server, 'listening')

offer({
  port: () => (server.address() as AddressInfo).port,
  usage: (): Usage => {
    const { user, system } = process.cpuUsage()
    return { originCalls, cpuMicros: user + system }
  },
})
