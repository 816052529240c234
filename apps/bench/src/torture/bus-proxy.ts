// A proxy between a cache and Redis that can cut only subscriptions, as networks cut idle
// connections.
import { connect, createServer, type Socket } from 'node:net'
import { listen } from '../lib/http.ts'
import { urlOf } from '../lib/redis.ts'

export async function startBusProxy(redisPort: number) {
  const subscribed = new Set<Socket>()
  let isCut = false
  const server = createServer((client) => {
    const redis = connect(redisPort, '127.0.0.1')
    client.on('data', (chunk) => {
      if (/\r\np?subscribe\r\n/i.test(chunk.toString('latin1'))) {
        subscribed.add(client)
        if (isCut) return void client.destroy()
      }
      redis.write(chunk)
    })
    redis.on('data', (chunk) => void client.write(chunk))
    const end = () => {
      subscribed.delete(client)
      client.destroy()
      redis.destroy()
    }
    for (const socket of [client, redis]) socket.on('close', end).on('error', end)
  })
  return {
    url: urlOf(await listen(server as never)),
    /** Number of connections with a subscription. */
    subscriptions: () => subscribed.size,
    /** Ends every subscription, and every new one until `mend`. */
    cut() {
      isCut = true
      for (const client of subscribed) client.destroy()
    },
    mend() {
      isCut = false
    },
  }
}
