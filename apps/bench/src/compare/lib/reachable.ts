// Waits until a port of this machine accepts connections.
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

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
