// `set`: purges a key in the fleet, then stores a value under a lease.

import { find } from '../engine/engine.ts'
import { purgeKey } from '../engine/hints.ts'
import type { Caller, Resolution } from '../engine/types.ts'
import { closedError, storeUnavailable, waitTimeout } from '../errors.ts'
import { dataKey } from '../ports/key.ts'
import type { CommitReply } from '../ports/store.ts'
import type { Runtime } from '../runtime.ts'
import { Call } from './call.ts'
import { checkKey } from './get-or-set.ts'
import type { Plan } from './get-or-set-options.ts'
import { decodeData, type Serializer } from './value.ts'

const NOT_STORED = 'the old value was purged, but the new one was not stored; set it again'
const TOO_LARGE = 'the value is too large for the store; store it in parts, or its address'

/** Rejects with `ERR_STAMPEDE_STORE_UNAVAILABLE` if the store does not accept the value. */
export async function set<T>(
  rt: Runtime,
  key: string,
  promised: T | Promise<T>,
  plan: Plan,
  serializer?: Serializer,
): Promise<T> {
  checkKey(key)
  return store(rt, key, await promised, plan, serializer)
}

/**
 * After the purge, another caller may fill the key with another value. This function then purges
 * and tries again, for `waitMs` at most.
 */
async function store<T>(
  rt: Runtime,
  key: string,
  value: T,
  plan: Plan,
  serializer: Serializer | undefined,
): Promise<T> {
  // Encoding comes before the purge. So a value that cannot be stored or parsed purges nothing.
  const result = new Call(rt, key, dataKey(key), () => value, plan, serializer).resultOf(value, 0)
  const stored = decodeData<T>(result.entry, serializer)
  let onCommit: (reply: CommitReply | 'too-large' | undefined) => void = () => {}
  const committed = new Promise<CommitReply | 'too-large' | undefined>((resolve) => {
    onCommit = resolve
  })
  const run: Caller['run'] = (lead, where) => {
    // A run in the background means that another fill left a stale value. `set` then tries again.
    if (where === 'behind') return lead.end({ type: 'abandoned' })
    const provenance = { ...result.entry.provenance, asOf: lead.asOf }
    const entry = { ...result.entry, provenance }
    lead.end({ ...result, entry, bornAt: rt.clock.now(), onCommit })
  }
  const resolve = () =>
    new Promise<Resolution>((answer) => {
      const found = find(rt, dataKey(key), plan, { answer, run })
      if (found !== undefined) answer(found)
    })
  const until = rt.clock.now() + plan.waitMs
  for (;;) {
    await purgeKey(rt, dataKey(key), false)
    const resolution = await resolve()
    if (resolution.type === 'led') {
      // `fenced`: a purge or another `set` came after this one and wins, so the value is not
      // stored.
      const reply = await committed
      if (reply === 'committed' || reply === 'fenced') return stored
      const why = reply === 'too-large' ? TOO_LARGE : NOT_STORED
      throw storeUnavailable(rt.store.name, 'set', new Error(why))
    }
    if (rt.closed) throw closedError()
    if (resolution.type === 'timed-out' || rt.clock.now() >= until) {
      throw waitTimeout(key, plan.waitMs)
    }
  }
}
