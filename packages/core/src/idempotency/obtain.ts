// From a key to the right to run it, or to the result of an earlier run. The process looks in its
// memory first, asks the store once, and then waits if the options say so.

import { newToken } from '../lease/token.ts'
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
  /** For so long at most, where that is known. */
  | { readonly type: 'busy'; readonly forMs?: number }
  | { readonly type: 'uncertain' }
  /** It completed, and what it answered cannot be read here: of a newer version, or sealed with a key not given. */
  | { readonly type: 'unreadable' }

/** Rejects, or throws, when the store is away. At once where nobody has to be asked or waited for. */
export function obtain(rt: IdempotencyRuntime, claim: Claim): Obtained | Promise<Obtained> {
  const { waitMs, maxWaiters } = claim.policy
  const first = fromMemory(rt, claim)
  if (first !== undefined && first.type !== 'busy') return first
  const waiting = waitMs > 0 ? rt.waiters.join(claim.key, maxWaiters) : undefined
  if (waiting === undefined) return first ?? ask(rt, claim, false)
  return obtainWaiting(rt, claim, waiting).finally(() => waiting.leave())
}

async function obtainWaiting(
  rt: IdempotencyRuntime,
  claim: Claim,
  waiting: Waiting,
): Promise<Obtained> {
  const deadline = rt.clock.now() + claim.policy.waitMs
  for (let looks = 0; ; looks++) {
    const near = fromMemory(rt, claim)
    // Nothing new begins while the store is being closed.
    if (near === undefined && looks > 0 && rt.closed) return { type: 'busy' }
    let obtained: Obtained
    try {
      obtained = near ?? (await ask(rt, claim, true))
    } catch (error) {
      if (looks === 0) throw error
      // An attempt was at work when we last heard: `onStoreError: 'proceed'` is not to run another beside it.
      const { key, name } = claim
      rt.events.emit({ type: 'store.failed', key, operation: 'begin', error }, name)
      return { type: 'busy' }
    }
    if (obtained.type === 'done' && looks > 0) return { ...obtained, from: 'wait' }
    if (obtained.type !== 'busy') return obtained
    const { forMs = Infinity } = obtained
    const leftMs = deadline - rt.clock.now()
    if (leftMs <= 0 || rt.closed) return obtained
    // The lease may end without a word: a little later than said, since it was rounded.
    await waiting.sleep(Math.min(leftMs, forMs + 5))
  }
}

/** What this process knows, without asking. */
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

/** As the stores do it. */
function matches(a: Fingerprints, b: Fingerprints): boolean {
  return (
    (a.exact !== '' && a.exact === b.exact) || (a.canonical !== '' && a.canonical === b.canonical)
  )
}

function ask(rt: IdempotencyRuntime, claim: Claim, wait: boolean): Obtained | Promise<Obtained> {
  const local = rt.local()
  if (local === undefined) return askOnce(rt, claim, wait)
  const sentAt = rt.clock.now()
  return told(rt, claim, local.beginNow(claim.key, beginning(claim, wait)), sentAt)
}

/** One question for all who would ask the same at this moment; one of them gets the right to run. */
async function askOnce(rt: IdempotencyRuntime, claim: Claim, wait: boolean): Promise<Obtained> {
  const { exact, canonical } = claim.fingerprints
  // Whoever came after a wake-up would not hear of it again: he asks anew.
  const turn = wait ? `wait ${rt.waiters.turn(claim.key)}` : ''
  const question = `${claim.key} ${exact} ${canonical} ${turn}`
  const asked = rt.asking.get(question)
  if (asked !== undefined) {
    const reply = await asked
    return reply.status === 'begun' ? { type: 'busy' } : read(rt, claim, reply)
  }
  const sentAt = rt.clock.now()
  const asking = rt.store.begin(claim.key, beginning(claim, wait))
  rt.asking.set(question, asking)
  try {
    return await told(rt, claim, await asking, sentAt)
  } finally {
    rt.asking.delete(question)
  }
}

function told(
  rt: IdempotencyRuntime,
  claim: Claim,
  reply: BeginReply,
  sentAt: number,
): Obtained | Promise<Obtained> {
  if (reply.status !== 'begun') return read(rt, claim, reply)
  const running = new Running(rt, claim, reply, sentAt)
  const run: Obtained = { type: 'run', running }
  const may = running.mayStart()
  return may === true ? run : Promise.resolve(may).then(() => ({ type: 'busy', forMs: 0 }))
}

function beginning({ fingerprints, policy }: Claim, wait: boolean): BeginRequest {
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

function read(
  rt: IdempotencyRuntime,
  { key, fingerprints }: Claim,
  reply: Exclude<BeginReply, { status: 'begun' }>,
): Obtained {
  if (reply.status === 'busy') return { type: 'busy', forMs: reply.forMs }
  if (reply.status !== 'completed') return { type: reply.status }
  const frame = rt.seal.open(key, reply.frame)
  const kept = frame && decodeKept(key, frame)
  if (kept === undefined) return { type: 'unreadable' }
  rt.replays.add(key, { kept, fingerprints }, reply.forMs)
  return { type: 'done', kept, from: 'store' }
}
