// The server process of one row.
import { listen } from '../lib/http.ts'
import { product } from '../lib/product.ts'
import { servers } from './servers.ts'

export async function start(id: string, redisUrl: string) {
  let originCalls = 0
  const origin = () => {
    originCalls += 1
    return product
  }
  const listener = await servers[id]?.(origin, redisUrl)
  if (listener === undefined) throw new Error(`no server named ${id}`)
  const port = await listen(listener)
  return {
    port: () => port,
    usage() {
      const { user, system } = process.cpuUsage()
      return { originCalls, cpuMicros: user + system }
    },
  }
}
