// Server process of one path. Usage: node serve.js <server> <Redis URL, or empty>.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { offer } from '../compare/lib/child.ts'
import type { ServerId } from './paths.ts'
import { listenerOf } from './servers.ts'

const [, , id, redisUrl = ''] = process.argv
const server = createServer(listenerOf(id as ServerId, redisUrl)).listen(0, '127.0.0.1')
await once(server, 'listening')

offer({
  port: (): number => (server.address() as AddressInfo).port,
  cpuMicros: (): number => {
    const { user, system } = process.cpuUsage()
    return user + system
  },
})
