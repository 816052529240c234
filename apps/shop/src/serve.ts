// Opening and closing the door: listen on a port, or say why not; stop without cutting anybody short.

import type { Server } from 'node:http'
import { StartError } from './settings.ts'

/** How long requests under way may take to finish once the shop stops. */
const DRAIN_MS = 5_000

/** Throws `StartError` when the port cannot be had. */
export function listen(server: Server, port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(cannotListen(port, error)))
    // The lab opens hundreds of connections at once; the default queue of 511 would drop some.
    server.listen({ port, backlog: 4096 }, () => resolve(server))
  })
}

function cannotListen(port: number, error: NodeJS.ErrnoException): Error {
  const other = port === 3000 ? 3001 : 3000
  if (error.code === 'EADDRINUSE') {
    return new StartError(
      `PORT=${port}: another program listens there; stop it, or choose another port, e.g. PORT=${other}`,
    )
  }
  if (error.code === 'EACCES') {
    return new StartError(
      `PORT=${port}: not allowed to listen there; choose one from 1024, e.g. PORT=${other}`,
    )
  }
  return error
}

/** Stops accepting, and waits for the answers under way, but not for connections that idle. */
export async function drain(server: Server, drainMs: number = DRAIN_MS): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  const idle = setInterval(() => server.closeIdleConnections(), 50)
  const late = setTimeout(() => server.closeAllConnections(), drainMs)
  await closed
  clearInterval(idle)
  clearTimeout(late)
}
