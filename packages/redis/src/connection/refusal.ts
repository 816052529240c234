// Distinguishes errors about a command (refusals) from errors of a server that cannot be used.

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

/** The error of Redis for a command that its user may not run, with what to do. */
export function withHint(error: unknown): unknown {
  if (!(error instanceof Error) || !/^NOPERM|can't run this command/.test(error.message))
    return error
  error.message += '; the Redis user lacks a permission: `stampede doctor` names it'
  return error
}
