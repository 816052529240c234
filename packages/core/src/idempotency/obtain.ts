// Begins an attempt, or gets the result of an earlier one. The process checks its memory, sends one
// command to the store, and waits if the options say so.

import { mayHaveRun } from '../errors.ts'
import { newToken } from '../lease/token.ts'
import { ANY_FENCE } from '../ports/grant.ts'
import type { BeginReply, BeginRequest, Fingerprints } from '../ports/idempotency-store.ts'
import type { Claim } from './claim.ts'
import type { IdempotencyRuntime } from './idempotency-runtime.ts'
import { decodeKept, type Kept } from './kept-response.ts'
import { KEEP_UNCERTAIN_MS, Running } from './running.ts'
import type { Waiting } from './waiters.ts'

export type Obtained =
  | { readonly type: 'run'; readonly running: Running }
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

/**
 * Throws or rejects if the store is unavailable. Returns a promise unless the memory of this
 * process or a memory store has the result.
 */
export function obtain(rt: IdempotencyRuntime, claim: Claim): Obtained | Promise<Obtained> {
  const { waitMs, maxWaiters } = claim.policy
  const first = fromMemory(rt, claim)
  if (first !== undefined && first.type !== 'busy') return first
  const waiting = waitMs > 0 ? rt.waiters.join(claim.key, maxWaiters) : undefined
  if (waiting === undefined) return first ?? begin(rt, claim, false)
  return obtainWaiting(rt, claim, waiting).finally(() => waiting.leave())
}

async function obtainWaiting(
  rt: IdempotencyRuntime,
  claim: Claim,
  waiting: Waiting,
): Promise<Obtained> {
  const deadline = rt.clock.now() + claim.policy.waitMs
  for (let tries = 0; ; tries++) {
    const known = fromMemory(rt, claim)
    // After close(), this process begins no attempt.
    if (known === undefined && tries > 0 && rt.closed) return { type: 'busy' }
    let obtained: Obtained
    try {
      obtained = known ?? (await begin(rt, claim, true))
    } catch (error) {
      if (tries === 0) throw error
      // The last reply was `busy`, so another attempt may still run. If this call rejected,
      // `onStoreError: 'proceed'` would run the handler a second time.
      const { key, name } = claim
      rt.events.emit({ type: 'store.failed', key, operation: 'begin', error }, name)
      return { type: 'busy' }
    }
    if (obtained.type === 'done' && tries > 0) return { ...obtained, from: 'wait' }
    if (obtained.type !== 'busy') return obtained
    const { forMs = Infinity } = obtained
    const leftMs = deadline - rt.clock.now()
    if (leftMs <= 0 || rt.closed) return obtained
    // The lease may expire without a message. 5 ms are added, because `forMs` is rounded.
    await waiting.sleep(Math.min(leftMs, forMs + 5))
  }
}

/** The result or the running attempt in the memory of this process. */
function fromMemory(rt: IdempotencyRuntime, { key, fingerprints }: Claim): Obtained | undefined {
  const done = rt.unstored.get(key) ?? rt.replays.get(key)
  if (done !== undefined) {
    if (!matches(done.fingerprints, fingerprints)) return { type: 'mismatch' }
    return { type: 'done', kept: done.kept, from: 'l1' }
  }
  const running = rt.running.get(key)
  if (running === undefined) return undefined
  return { type: matches(running.claim.fingerprints, fingerprints) ? 'busy' : 'mismatch' }
}

/** Whether two requests are the same, as the stores compare them. */
function matches(a: Fingerprints, b: Fingerprints): boolean {
  return (
    (a.exact !== '' && a.exact === b.exact) || (a.canonical !== '' && a.canonical === b.canonical)
  )
}

function begin(rt: IdempotencyRuntime, claim: Claim, wait: boolean): Obtained | Promise<Obtained> {
  const local = rt.local()
  if (local === undefined) return beginShared(rt, claim, wait)
  const sentAt = rt.clock.now()
  return fromReply(rt, claim, local.beginNow(claim.key, requestOf(claim, wait)), sentAt)
}

/**
 * Equal requests share one pending command. Only the request that sent the command may run its
 * handler.
 */
async function beginShared(rt: IdempotencyRuntime, claim: Claim, wait: boolean): Promise<Obtained> {
  const { exact, canonical } = claim.fingerprints
  // A command from before a wake-up or a settlement may have an outdated reply. So a request that
  // came after it sends its own command.
  const turn = wait ? `wait ${rt.waiters.turn(claim.key)}` : ''
  const since = rt.replays.sequence()
  const sharedBy = `${claim.key} ${exact} ${canonical} ${since} ${turn}`
  const pending = rt.pendingBegins.get(sharedBy)
  if (pending !== undefined) {
    const reply = await pending
    return reply.status === 'begun' ? { type: 'busy' } : settled(rt, claim, reply, since)
  }
  const sentAt = rt.clock.now()
  const request = requestOf(claim, wait)
  const command = rt.store.begin(claim.key, request)
  rt.pendingBegins.set(sharedBy, command)
  try {
    return await fromReply(rt, claim, await command, sentAt, since)
  } catch (error) {
    if (mayHaveRun(error)) void releaseUnheard(rt, claim, request)
    throw error
  } finally {
    rt.pendingBegins.delete(sharedBy)
  }
}

/**
 * Ends an attempt that may have begun although no reply came. No handler runs for it, and repeats
 * of the request would get 409 until its lease ends.
 */
function releaseUnheard(
  rt: IdempotencyRuntime,
  { key, fingerprints }: Claim,
  { token, retentionMs }: BeginRequest,
): Promise<void> {
  const grant = { key, token, fence: ANY_FENCE }
  const finish = { as: 'released', keepMs: retentionMs } as const
  return rt.keeper.release(() => rt.store.finish(grant, finish, fingerprints))
}

function fromReply(
  rt: IdempotencyRuntime,
  claim: Claim,
  reply: BeginReply,
  sentAt: number,
  since: number = rt.replays.sequence(),
): Obtained | Promise<Obtained> {
  if (reply.status !== 'begun') return settled(rt, claim, reply, since)
  const running = new Running(rt, claim, reply, sentAt)
  const run: Obtained = { type: 'run', running }
  const may = running.mayStart()
  return may === true ? run : Promise.resolve(may).then(() => ({ type: 'busy', forMs: 0 }))
}

function requestOf({ fingerprints, policy }: Claim, wait: boolean): BeginRequest {
  const { leaseMs, retentionMs, maxAttempts, onLeaseExpired } = policy
  return {
    token: newToken(),
    fingerprints,
    leaseMs,
    retentionMs,
    maxAttempts,
    onLeaseExpired,
    keepUncertainMs: KEEP_UNCERTAIN_MS,
    wait,
  }
}

function settled(
  rt: IdempotencyRuntime,
  { key, fingerprints }: Claim,
  reply: Exclude<BeginReply, { status: 'begun' }>,
  since: number,
): Obtained {
  if (reply.status === 'busy') return { type: 'busy', forMs: reply.forMs }
  if (reply.status !== 'completed') return { type: reply.status }
  const frame = rt.seal.open(key, reply.frame)
  const kept = frame && decodeKept(key, frame)
  if (kept === undefined) return { type: 'unreadable' }
  rt.replays.add(key, { kept, fingerprints }, reply.forMs, since)
  return { type: 'done', kept, from: 'store' }
}
