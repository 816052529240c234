// A port for a server that will be killed and started again on it.
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/**
 * A port of 127.0.0.1 on which no server listens. It lies below the range of ports for outgoing
 * connections. In that range, a client that reconnects while the server is down may get the
 * server's port as its source. Then it talks to itself.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 50; attempt++) {
    const port = randomInt(20_000, 30_000)
    if (await isFree(port)) return port
  }
  throw new Error('No free port between 20000 and 30000 in 50 attempts')
}

/**
 * A port for a node of a cluster, which also listens 10,000 above it. Both are free and below that
 * range.
 */
export async function freeClusterPort(): Promise<number> {
  for (let attempt = 0; attempt < 50; attempt++) {
    const port = randomInt(20_000, 22_700)
    if ((await isFree(port)) && (await isFree(port + 10_000))) return port
  }
  throw new Error('No free port for a node of a cluster in 50 attempts')
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
}
