// Idempotency keys are promises: a server that may evict them when its memory is full may break them, silently.
// So it is asked once, and told of in a warning.

import type { RedisLink } from '../connection/link.ts'

/** Whatever fails here is not said: this is advice, and nobody waits for it. */
export async function warnOfEviction(link: RedisLink): Promise<void> {
  try {
    await link.opened
    const policy = evictionPolicy(String(await link.ask('INFO', 'memory')))
    if (policy === undefined) return
    process.emitWarning(
      `Redis may evict idempotency records: maxmemory-policy is ${policy}. An evicted key is forgotten, and its ` +
        'request can run twice. Set maxmemory-policy to noeviction, or keep idempotency keys on a server apart ' +
        'from the cache.',
      { type: 'StampedeWarning', code: 'STAMPEDE_EVICTION' },
    )
  } catch {
    // INFO may be forbidden, or the server away.
  }
}

/** `INFO memory` in, the name of a policy that evicts out; undefined if nothing is ever evicted. */
function evictionPolicy(info: string): string | undefined {
  const [, policy] = /^maxmemory_policy:(\S+)/m.exec(info) ?? []
  const [, limit] = /^maxmemory:(\d+)/m.exec(info) ?? []
  return policy === 'noeviction' || Number(limit ?? 0) === 0 ? undefined : policy
}
