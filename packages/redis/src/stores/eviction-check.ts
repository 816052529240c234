// Warns once if Redis may evict idempotency records. If a record is evicted, its request can run
// twice without an error.

import type { RedisLink } from '../connection/link.ts'

/** Emits the warning if it applies. Never rejects. */
export async function warnOfEviction(link: RedisLink): Promise<void> {
  try {
    await link.opened
    const policy = evictionPolicy(String(await link.ask('INFO', 'memory')))
    if (policy === undefined) return
    process.emitWarning(
      `Redis may evict idempotency records: maxmemory-policy is ${policy}. The request of an evicted key ` +
        'can run twice. Set maxmemory-policy to noeviction, or keep idempotency keys on a server apart ' +
        'from the cache.',
      { type: 'StampedeWarning', code: 'STAMPEDE_EVICTION' },
    )
  } catch {
    // The user may not run INFO, or Redis is unavailable.
  }
}

/** Name of the eviction policy in a reply to `INFO memory`. Undefined if Redis never evicts. */
function evictionPolicy(info: string): string | undefined {
  const [, policy] = /^maxmemory_policy:(\S+)/m.exec(info) ?? []
  const [, limit] = /^maxmemory:(\d+)/m.exec(info) ?? []
  return policy === 'noeviction' || Number(limit ?? 0) === 0 ? undefined : policy
}
