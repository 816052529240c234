// A proxy between a cache and Redis that can cut only subscriptions, as networks cut idle
// connections.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

export class BusProxy {
  readonly #server: Server
  readonly #subscribed = new Set<Socket>()
  #cut = false

  private constructor(server: Server) {
    this.#server = server
  }

  static async before(redisPort: number): Promise<BusProxy> {
    const server = createServer()
    const proxy = new BusProxy(server)
    server.on('connection', (client) => proxy.#join(client, redisPort))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return proxy
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Number of connections with a subscription. */
  get subscriptions(): number {
    return this.#subscribed.size
  }

  /** Ends every subscription, and every new one until `mend`. */
  cut(): void {
    this.#cut = true
    for (const client of this.#subscribed) client.destroy()
  }

  mend(): void {
    this.#cut = false
  }

  #join(client: Socket, port: number): void {
    const redis = connect(port, '127.0.0.1')
    client.on('data', (chunk) => {
      if (/\r\np?subscribe\r\n/i.test(chunk.toString('latin1'))) {
        this.#subscribed.add(client)
        if (this.#cut) return void client.destroy()
      }
      redis.write(chunk)
    })
    redis.on('data', (chunk) => void client.write(chunk))
    const end = () => {
      this.#subscribed.delete(client)
      client.destroy()
      redis.destroy()
    }
    for (const socket of [client, redis]) socket.on('close', end).on('error', end)
  }
}
