// Begins an attempt, or gets the result of an earlier one. The process checks its memory, sends one
// command to the store, and waits if the options say so.

import { closedError, mayHaveRun } from '../errors.ts'
import { isSameRequest } from '../http/fingerprint.ts'
import { newToken } from '../lease/lease-keeper.ts'
import { ANY_FENCE } from '../ports/grant.ts'
import type { BeginReply, BeginRequest } from '../ports/idempotency-store.ts'
import type { Kept } from './kept-response.ts'
import { KEEP_UNCERTAIN_MS, Running } from './running.ts'
import type { IdempotencyRuntime } from './runtime.ts'
import type { Beginning, Claim, Known } from './types.ts'

/** After this many expired leases in a row, a key is uncertain. */
const MAX_ATTEMPTS = 3
/** Limit of waiters for one record in this process. */
const MAX_WAITERS = 100

/** The state of a key for a request or job that does not run. */
export type Settled =
  | { readonly type: 'done'; readonly kept: Kept; readonly from: 'l1' | 'store' | 'wait' }
  | { readonly type: 'mismatch' }
  /**
   * Another attempt runs. Its lease ends in `forMs`, unless the attempt renews it. Undefined:
   * unknown.
   */
  | { readonly type: 'busy'; readonly forMs?: number }
  | { readonly type: 'uncertain' }
  /** A completed attempt whose result is from a newer version, or sealed with an unknown key. */
  | { readonly type: 'unreadable' }
  /** The store is unavailable, or the Stampede is closed. */
  | { readonly type: 'unavailable'; readonly error: unknown }

export type Begun = Running | Settled

/** An attempt runs whose lease is unknown. */
const BUSY: Settled = { type: 'busy' }
/** The lease of this attempt is over. */
const OVER: Settled = { type: 'busy', forMs: 0 }

/**
 * Never rejects. Returns a promise unless the memory of this process or a memory store has the
 * result.
 */
export function beginAttempt(rt: IdempotencyRuntime, claim: Claim): Begun | Promise<Begun> {
  const { waitMs } = claim.policy
  const known = rt.attempts.get(claim.key)
  const first = known && fromMemory(known, claim)
  if (first !== undefined && first.type !== 'busy') return first
  if (waitMs === 0 || !rt.waiters.join(claim.key, MAX_WAITERS))
    return first ?? begin(rt, claim, false)
  return beginOrWait(rt, claim).finally(() => rt.waiters.leave(claim.key))
}

async function beginOrWait(rt: IdempotencyRuntime, claim: Claim): Promise<Begun> {
  const deadline = rt.clock.now() + claim.policy.waitMs
  for (let tries = 0; ; tries++) {
    const turn = rt.waiters.turn(claim.key)
    const known = rt.attempts.get(claim.key)
    const begun = (known && fromMemory(known, claim)) ?? (await begin(rt, claim, true))
    if (begun.type === 'done' && tries > 0) return { ...begun, from: 'wait' }
    // The last reply was `busy`, so another attempt may still run. With `unavailable`,
    // `onStoreError: 'proceed'` would run the handler a second time.
    if (begun.type === 'unavailable' && tries > 0) return BUSY
    if (begun.type !== 'busy') return begun
    const { forMs = Infinity } = begun
    const leftMs = deadline - rt.clock.now()
    if (leftMs <= 0 || rt.closed) return begun
    // The lease may expire without a message. 5 ms are added, because `forMs` is rounded.
    await rt.waiters.sleep(claim.key, turn, Math.min(leftMs, forMs + 5))
  }
}

/**
 * The result or the running attempt in the memory of this process. Fingerprints are compared as in
 * the stores.
 */
function fromMemory(known: Known, { fingerprints }: Claim): Settled | undefined {
  if (known.type === 'beginning') return undefined
  const { fingerprints: first } = known.type === 'done' ? known : known.claim
  const isSame = isSameRequest(first, fingerprints)
  if (known.type === 'running') return { type: isSame ? 'busy' : 'mismatch' }
  if (known.kept === undefined) return undefined
  return isSame ? { type: 'done', kept: known.kept, from: 'l1' } : { type: 'mismatch' }
}

/**
 * Equal requests share one pending command. Only the request that sent the command may run its
 * handler. A command from before a wake-up or a settlement may have an outdated reply. So a request
 * that came after it sends its own command.
 */
function begin(rt: IdempotencyRuntime, claim: Claim, wait: boolean): Begun | Promise<Begun> {
  if (rt.closed) return unavailable(closedError())
  const { attempts } = rt
  const { key, fingerprints } = claim
  const since = attempts.sequence
  const sentAt = rt.clock.now()
  const { leaseMs, retentionMs, onLeaseExpired, transaction } = claim.policy
  const request: BeginRequest = {
    token: newToken(),
    fingerprints,
    leaseMs,
    retentionMs,
    maxAttempts: onLeaseExpired === 'takeover' ? MAX_ATTEMPTS : 1,
    keepUncertainMs: KEEP_UNCERTAIN_MS,
    wait,
    transaction,
  }
  const turn = wait ? rt.waiters.turn(key) : -1
  const pending = attempts.get(key)
  if (pending?.type === 'beginning' && pending.since === since && pending.turn === turn) {
    const { exact, canonical } = pending.fingerprints
    if (exact === fingerprints.exact && canonical === fingerprints.canonical)
      return pending.reply.then(
        (reply) => (reply.status === 'begun' ? BUSY : fromReply(rt, claim, reply, sentAt, since)),
        unavailable,
      )
  }
  let reply: ReturnType<typeof rt.store.begin>
  try {
    reply = rt.store.begin(key, request)
  } catch (error) {
    return failed(rt, claim, request, error)
  }
  if ('status' in reply) return fromReply(rt, claim, reply, sentAt, since)
  const beginning: Beginning = { type: 'beginning', reply, fingerprints, since, turn }
  attempts.counts.beginning += 1
  // An unstored end keeps its place, to be sent again.
  if (pending?.type !== 'unstored') attempts.set(key, beginning)
  return reply.then(
    (begun) => {
      attempts.counts.beginning -= 1
      attempts.remove(key, beginning)
      return fromReply(rt, claim, begun, sentAt, since)
    },
    (error: unknown) => {
      attempts.counts.beginning -= 1
      attempts.remove(key, beginning)
      return failed(rt, claim, request, error)
    },
  )
}

function unavailable(error: unknown): Settled {
  return { type: 'unavailable', error }
}

/**
 * Reports that `begin` failed. If the attempt may have begun all the same, it is ended: no handler
 * runs for it, and repeats of the request would get 409 until its lease ends.
 */
function failed(
  rt: IdempotencyRuntime,
  { key, name, fingerprints }: Claim,
  { token, retentionMs }: BeginRequest,
  error: unknown,
): Settled {
  rt.events.emit({ type: 'store.failed', key, operation: 'begin', error }, name)
  const grant = { key, token, fence: ANY_FENCE }
  const finish = { as: 'released', keepMs: retentionMs } as const
  if (mayHaveRun(error)) void rt.keeper.release(() => rt.store.finish(grant, finish, fingerprints))
  return unavailable(error)
}

function fromReply(
  rt: IdempotencyRuntime,
  claim: Claim,
  reply: BeginReply,
  sentAt: number,
  since: number,
): Begun | Promise<Begun> {
  if (reply.status === 'busy') return { type: 'busy', forMs: reply.forMs }
  if (reply.status === 'begun') {
    const running = new Running(rt, claim, reply, sentAt)
    if (!running.isLost) return running
    // The lease ended before the reply came, so another attempt may run.
    running.verdict = 'release'
    const ended = running.onEnd({ type: 'unanswered' })
    return ended === undefined ? OVER : ended.then(() => OVER)
  }
  if (reply.status !== 'completed') return { type: reply.status }
  const kept = rt.seal.decode(claim.key, reply.frame)
  if (kept === undefined) return { type: 'unreadable' }
  rt.attempts.addDone(claim, kept, reply.forMs, since)
  return { type: 'done', kept, from: 'store' }
}
