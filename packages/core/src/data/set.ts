// `set`: purges a key in the fleet, then stores a value under a lease.

import { find } from '../engine/engine.ts'
import { purgeKey } from '../engine/messages.ts'
import type { Caller, FillResult, Resolution } from '../engine/types.ts'
import type { StoredValue } from '../entry/entry.ts'
import { closedError, storeUnavailable, waitTimeout } from '../errors.ts'
import { dataKey, shownKey } from '../ports/key.ts'
import type { CommitReply } from '../ports/store.ts'
import { Call } from './call.ts'
import type { DataScope } from './get-or-set-options.ts'
import { decodeData } from './value.ts'

const NOT_STORED = 'the old value was purged, but the new one was not stored; set it again'
const TOO_LARGE = 'the value is too large for the store; store it in parts, or its address'

/** How an attempt to store a value ended. */
type End = CommitReply | 'too-large' | Resolution['type'] | undefined

/**
 * After the purge, another caller may fill the key with another value. This function then purges
 * and tries again, for `waitMs` at most. Rejects with `ERR_STAMPEDE_STORE_UNAVAILABLE` if the store
 * does not accept the value.
 */
export async function set<T>(of: DataScope, name: string, promised: T | Promise<T>): Promise<T> {
  const value = new NewValue<T>(of, name, await promised)
  for (;;) {
    await purgeKey(of.rt, value.key, false)
    if (value.isStored(await value.store())) return value.stored
  }
}

/** A value that shall be stored after a purge of its key. */
export class NewValue<T> {
  readonly key: string
  /** The value in the form that callers get. */
  readonly stored: T
  readonly #of: DataScope
  readonly #result: Extract<FillResult, { type: 'store' }>
  readonly #until: number

  /**
   * Encoding comes before the purge. So a value that cannot be stored or parsed purges nothing.
   * Throws for such a value.
   */
  constructor(of: DataScope, name: string, value: T) {
    const { rt, plan, serializer, keys } = of
    this.key = dataKey(keys.prefix + name)
    this.#of = of
    const result = new Call(of, this.key).resultOf(value, { asOf: 0 }, undefined)
    if (result.type !== 'store') throw result.type === 'failure' ? result.error : undefined
    this.#result = result
    this.stored = decodeData<T>(result.entry as StoredValue, serializer)
    this.#until = rt.clock.now() + plan.waitMs
  }

  /** Takes the lease and commits the value. */
  store(): Promise<End> {
    const { rt, plan } = this.#of
    const result = this.#result
    return new Promise((settle) => {
      const run: Caller['run'] = (lead, where) => {
        // A run in the background means that another fill left a stale value.
        if (where === 'behind') return lead.end({ type: 'abandoned' })
        const provenance = { ...result.entry.provenance, asOf: lead.asOf }
        const entry = { ...result.entry, provenance }
        lead.end({ ...result, entry, bornAt: rt.clock.now(), onCommit: settle })
      }
      const answer = ({ type }: Resolution): void => {
        if (type !== 'led') settle(type)
      }
      const found = find(rt, this.key, plan, { answer, run })
      if (found !== undefined) answer(found)
    })
  }

  /** False: purge the key and store the value again. Throws if it cannot be stored. */
  isStored(end: End): boolean {
    // `fenced`: a purge or another `set` came after this one and wins, so the value is not stored.
    if (end === 'committed' || end === 'fenced') return true
    const { rt, plan } = this.#of
    if (end === undefined || end === 'too-large')
      throw storeUnavailable(rt.store.name, 'set', new Error(end ? TOO_LARGE : NOT_STORED))
    if (rt.closed) throw closedError()
    if (end === 'timed-out' || rt.clock.now() >= this.#until)
      throw waitTimeout(shownKey(this.key), plan.waitMs)
    return false
  }
}
