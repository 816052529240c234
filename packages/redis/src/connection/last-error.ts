// The last error that ioredis reported for a connection. If a command cannot be sent, its error
// includes that error.

import type { Connection } from './connection.ts'

/** Text of the error for a command after the end of its store. */
export const CLOSED = 'the store was closed'

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

/** The error of a command that was not sent and so cannot have run. */
export class NotSent extends Error {
  override readonly name = 'NotSent'

  constructor(cause?: Error, state = 'not connected') {
    super(cause === undefined ? state : `${state}: ${reasonOf(cause)}`, { cause })
  }
}

/**
 * Returns the text of an error. Node's error has a `code` but an empty `message` if all addresses
 * of a host refuse the connection.
 */
function reasonOf(error: NodeJS.ErrnoException): string {
  if (error instanceof NotSent && error.cause instanceof Error) return reasonOf(error.cause)
  return error.message || error.code || error.name
}
