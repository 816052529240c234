// Errors of Redis. A refusal is about one command, and other errors about a server that cannot be
// used.

import type { ClusterNode, Connection } from './client-types.ts'

/**
 * Whether Redis refused the command: it replied with an error that is about this command. False for
 * connection errors, and for error replies of a server that is not ready or not the right one.
 */
export function isRefusal(error: unknown): boolean {
  if (!(error instanceof Error) || error.name !== 'ReplyError') return false
  return !/^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY)/.test(error.message)
}

/** Redis 6.2 wraps errors of commands in a script: `ERR Error running script: -READONLY ...`. */
export function isReadOnly({ message }: Error): boolean {
  return message.startsWith('READONLY') || message.includes('-READONLY ')
}

/** An error of ioredis, which adds the command that Redis refused. */
export interface ReplyError extends Error {
  command?: { readonly name: string }
}

/** Removes AUTH and HELLO from their error, which the application gets: they have the password. */
export function hidePassword(error: ReplyError): void {
  const { name } = error.command ?? {}
  if (name === 'auth' || name === 'hello') delete error.command
}

/** The error of Redis for a command that its user may not run, with what to do. */
export function withHint(error: unknown): unknown {
  if (!(error instanceof Error) || !/^NOPERM|can't run this command/.test(error.message))
    return error
  error.message += '; the Redis user lacks a permission: `npx @stampede/cli doctor` names it'
  return error
}

// The last error that ioredis reported for a connection. If a command cannot be sent, its error
// includes that error.

/** Text of the error for a command after the end of its store. */
export const CLOSED = 'the store was closed'

const lastErrors = new WeakMap<Connection, Error>()

export function rememberErrors(connection: Connection): void {
  const remember = (error: Error) => {
    hidePassword(error)
    // These errors do not say why. The error before them does.
    const isVague =
      'lastNodeError' in error || /^(Connection is closed|Stream isn't writ)/.test(error.message)
    if (!isVague || !lastErrors.has(connection)) lastErrors.set(connection, error)
  }
  connection.on('error', remember)
  // ioredis emits this event for one node of a cluster.
  connection.on('node error', remember)
  // A cluster asks a node for the slots by a copy of its connection, whose errors it ignores.
  connection.on('+node', (node: ClusterNode) => {
    const duplicate = node.duplicate.bind(node)
    node.duplicate = (options) => {
      const copy = duplicate(options)
      copy.on('error', remember)
      return copy
    }
  })
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
