// A whole journey on keys of the doctor: fill, read, purge, lock, idempotency key. It runs every
// script as the application does.

import { randomBytes } from 'node:crypto'
import type { StampedeStore } from '@stampede/core'
import { newToken, systemClock } from '@stampede/core/store'
import { Unexpected } from '../errors.ts'
import { type Fleet, openFleet, type Settings } from '../fleet.ts'
import { count } from '../format.ts'
import { type Finding, fail, ok } from './finding.ts'

const LEASE_MS = 1_000
/** A purge that a server refuses is repeated for one time budget. */
const MOST_BUDGET_MS = 1_000

export async function journeyFindings(settings: Settings): Promise<Finding[]> {
  const timeoutMs = Math.min(settings.timeoutMs, MOST_BUDGET_MS)
  await using fleet = await openFleet({ ...settings, timeoutMs })
  return [
    await step('cache', () => fillAndPurge(fleet)),
    await step('locks', () => lock(fleet.store)),
    await step('idempotency', () => useKey(fleet.store)),
    await step('fleet', () => processes(fleet.store)),
  ]
}

/** `work` resolves to what was done. */
async function step(check: string, work: () => Promise<string>): Promise<Finding> {
  try {
    return ok(check, await work())
  } catch (error) {
    const { message } = error as Error
    return fail(check, message, 'see the findings above; the application gets the same error')
  }
}

const newKey = () => `stampede-doctor:${randomBytes(9).toString('base64url')}`

async function fillAndPurge({ stampede }: Fleet): Promise<string> {
  const key = newKey()
  const get = () => stampede.getOrSet(key, () => key, { ttlMs: LEASE_MS })
  let failure: unknown
  const stop = stampede.on('store.failed', ({ error }) => {
    failure ??= error
  })
  const [first, second] = [await get(), await get()]
  await stampede.purge({ key })
  stop()
  if (failure !== undefined) throw failure
  if (first !== key || second !== key)
    throw new Unexpected('the value that was read is another one')
  return 'an entry was filled, read and purged'
}

async function lock({ locks }: StampedeStore): Promise<string> {
  const ignore = (): void => {}
  const hooks = { onGrant: ignore, onGap: ignore, onLost: ignore, onError: ignore }
  locks.attach({ clock: systemClock, ...hooks })
  try {
    const request = { token: newToken(), leaseMs: LEASE_MS, queue: false }
    const reply = await locks.acquire(newKey(), request)
    if (reply.status !== 'granted') throw new Unexpected('a new lock was not free')
    await locks.renew([reply.grant], LEASE_MS)
    await locks.release(reply.grant)
    return 'a lock was acquired and released'
  } finally {
    await locks.close()
  }
}

async function useKey({ idempotency }: StampedeStore): Promise<string> {
  const ignore = (): void => {}
  const hooks = { onWake: ignore, onSettled: ignore, onGap: ignore, onBack: ignore }
  idempotency.attach({ clock: systemClock, ...hooks, onLost: ignore, onError: ignore })
  try {
    const key = newKey()
    const times = { leaseMs: LEASE_MS, retentionMs: KEPT_MS, keepUncertainMs: KEPT_MS }
    const attempt = { token: newToken(), fingerprints, maxAttempts: 1, wait: false }
    const reply = await idempotency.begin(key, { ...attempt, ...times })
    if (reply.status !== 'begun') throw new Unexpected(`a new key is ${reply.status}`)
    const { grant } = reply
    await idempotency.renew([grant], LEASE_MS)
    await idempotency.keepStep(grant, 'step', FRAME)
    await idempotency.finish(
      grant,
      { as: 'completed', frame: FRAME, keepMs: KEPT_MS },
      fingerprints,
    )
    const released = { as: 'released', keepMs: KEPT_MS } as const
    await idempotency.settle(key, released, { force: true })
    const found = await idempotency.inspect(key)
    if (found?.state !== 'released') throw new Unexpected(`the settled key is ${found?.state}`)
    return 'an idempotency key was used and settled'
  } finally {
    await idempotency.close()
  }
}

const KEPT_MS = 2_000
const FRAME = Buffer.from('done')
const fingerprints = { exact: 'exact', canonical: 'canonical' }

async function processes({ operator }: StampedeStore): Promise<string> {
  const { size } = await operator.reports()
  return size === 0 ? 'no process publishes reports' : `${count(size, 'process')} reporting`
}
