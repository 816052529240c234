// Ports of this machine: one that is free, and one that answers by now.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** Rejects after ten seconds. */
export async function reachable(port: number): Promise<void> {
  for (const since = performance.now(); performance.now() - since < 10_000; await sleep(20)) {
    const socket = connect(port, '127.0.0.1')
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (isOpen) return
  }
  throw new Error(`nothing listens on port ${port}`)
}
