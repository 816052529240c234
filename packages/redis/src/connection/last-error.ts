// Why a connection is not there: the last that ioredis said of it. What could not be sent for want of one says so.

import type { Connection } from './connection.ts'

const lastErrors = new WeakMap<Connection, Error>()

export function rememberErrors(connection: Connection): void {
  const remember = (error: Error) => lastErrors.set(connection, error)
  connection.on('error', remember)
  // Of one node of a cluster.
  connection.on('node error', remember)
  connection.on('ready', () => lastErrors.delete(connection))
}

export function lastErrorOf(connection: Connection): Error | undefined {
  return lastErrors.get(connection)
}

/** It was not sent, and so has not run. */
export class NotSent extends Error {
  constructor(cause?: Error) {
    super(cause === undefined ? 'not connected' : `not connected: ${reasonOf(cause)}`, { cause })
  }
}

/** Where a name has several addresses, and none answers, Node says only in the code what is wrong. */
function reasonOf(error: NodeJS.ErrnoException): string {
  return error.message || error.code || error.name
}
