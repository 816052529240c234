// Tokens: random values that identify one grant, for leases of fills, attempts and locks.

import { randomBytes } from 'node:crypto'

const TOKEN_BYTES = 16
/** Random bytes are generated for many tokens at once, which costs hardly more than for one. */
const TOKENS_AT_ONCE = 256
let random: Buffer = Buffer.alloc(0)

/**
 * 128 random bits in base64url. A process that does not know the token of a lease cannot guess it,
 * and so cannot end the lease.
 */
export function newToken(): string {
  if (random.length === 0) random = randomBytes(TOKEN_BYTES * TOKENS_AT_ONCE)
  const token = random.toString('base64url', 0, TOKEN_BYTES)
  random = random.subarray(TOKEN_BYTES)
  return token
}
