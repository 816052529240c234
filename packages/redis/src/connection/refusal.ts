// Distinguishes commands that Redis refused from commands that did not reach a usable server.

/**
 * Whether Redis refused the command. False for connection errors, and for error replies of a server
 * that is not ready or not the right one.
 */
export function isRefusal(error: unknown): boolean {
  if (!(error instanceof Error) || error.name !== 'ReplyError') return false
  return !/^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY)/.test(error.message)
}
