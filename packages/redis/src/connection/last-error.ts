// The last error that ioredis reported for a connection. The error of an unsent command includes
// it.

import type { Connection } from './connection.ts'

const lastErrors = new WeakMap<Connection, Error>()

export function rememberErrors(connection: Connection): void {
  const remember = (error: Error) => lastErrors.set(connection, error)
  connection.on('error', remember)
  // ioredis emits this event for one node of a cluster.
  connection.on('node error', remember)
  connection.on('ready', () => lastErrors.delete(connection))
}

export function lastErrorOf(connection: Connection): Error | undefined {
  return lastErrors.get(connection)
}

/** The command was not sent, so it has not run. */
export class NotSent extends Error {
  constructor(cause?: Error) {
    super(cause === undefined ? 'not connected' : `not connected: ${reasonOf(cause)}`, { cause })
  }
}

/**
 * If a host has several addresses and none accepts, the error of Node has a `code` but an empty
 * `message`.
 */
function reasonOf(error: NodeJS.ErrnoException): string {
  return error.message || error.code || error.name
}
