// Warns once if Redis may evict idempotency records. If a record is evicted, its request can run
// twice without an error.

import type { RedisLink } from '../connection/link.ts'
import { readServerInfo } from './redis-operator.ts'

/** Emits the warning if it applies. Never rejects. */
export async function warnOfEviction(link: RedisLink): Promise<void> {
  try {
    await link.opened
    const info = readServerInfo(String(await link.ask('INFO', 'memory')), link.isCluster)
    const { evictionPolicy: policy = 'noeviction', maxMemoryBytes = 0 } = info
    // Without a limit, Redis never evicts.
    if (policy === 'noeviction' || maxMemoryBytes === 0) return
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
