// Starts a server on a port, or says why it cannot, and stops it without cutting off responses.

import type { Server } from 'node:http'
import { StartError } from './settings.ts'

/** Time limit for open requests when the shop stops. */
const DRAIN_MS = 5_000

/** Throws `StartError` if the port cannot be used. */
export function listen(server: Server, port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(cannotListen(port, error)))
    // The lab opens hundreds of connections at once. The default queue of 511 would drop some.
    server.listen({ port, backlog: 4096 }, () => resolve(server))
  })
}

/** Listens on a free port that only this machine can reach. */
export function listenLocally(server: Server): Promise<Server> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => resolve(server))
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

/**
 * Stops accepting connections and waits for open responses. Idle connections are closed at once.
 */
export async function drain(server: Server, drainMs: number = DRAIN_MS): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  const idle = setInterval(() => server.closeIdleConnections(), 50)
  const late = setTimeout(() => server.closeAllConnections(), drainMs)
  await closed
  clearInterval(idle)
  clearTimeout(late)
}
