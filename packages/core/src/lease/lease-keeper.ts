// The leases of one owner, such as a Stampede: tokens, drift, and one timer for all renewals. If a
// lease is lost, the result cannot be committed, but the response still reaches its client. A lease
// that has no holder is released, with retries.

import { randomBytes } from 'node:crypto'
import { messageOf } from '../errors.ts'
import type { Clock } from '../ports/clock.ts'
import type { Grant } from '../ports/store.ts'
import { type Deadline, Deadlines } from './deadlines.ts'

/** A lease is renewed after a third, and its retries come twice as often. */
const RENEWALS_PER_LEASE = 3

export interface Renewer {
  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]>
}

/** A lease that is renewed. As a deadline, it is due at its next renewal, or at `endsAt`. */
export interface HeldLease extends Deadline {
  readonly grant: Grant
  readonly leaseMs: number
  /** Time at which it is due in any case, also if it is no longer renewed. `Infinity`: never. */
  readonly endsAt: number
  /**
   * Called after a renewal. The lease now lasts for its full length from `sentAt`, when the renewal
   * was sent.
   */
  renewed?(sentAt: number): void
  /** Called if the store replies that the lease has ended or belongs to another holder. */
  lost?(): void
}

/** Pauses before the retries. If the last retry fails, the lease ends when its time is over. */
const RELEASE_AGAIN_MS = [100, 400, 1_500]

/** Renews leases until they are ended, lost or held for too long. */
export class LeaseKeeper {
  readonly #renewer: Renewer
  readonly #clock: Clock
  readonly #held = new Set<HeldLease>()
  readonly #deadlines: Deadlines
  /** Whether `close()` has ended all leases of this process. */
  isStopped = false

  /**
   * Drift of a lease in ms, the last part, which its holder does not use: 1 % of the lease for
   * clocks that run at different speeds, and 2 ms for rounding.
   */
  static driftMs(leaseMs: number): number {
    return leaseMs * 0.01 + 2
  }

  constructor(renewer: Renewer, clock: Clock, deadlines: Deadlines = new Deadlines(clock)) {
    this.#renewer = renewer
    this.#clock = clock
    this.#deadlines = deadlines
  }

  get size(): number {
    return this.#held.size
  }

  /** Stops all renewals. Leases that are taken later are not renewed either. */
  stop(): void {
    this.isStopped = true
    for (const lease of this.#held) this.#stopRenewal(lease)
    this.#deadlines.endTimer()
  }

  grants(): Grant[] {
    return [...this.#held].map(({ grant }) => grant)
  }

  /**
   * Makes the lease due for its renewals until `end` is called or the lease is lost. Its `due`
   * calls `renew`. `forMs` is the time after which the lease ends without a renewal.
   */
  hold(lease: HeldLease, forMs: number): void {
    if (this.isStopped) return this.#stopRenewal(lease)
    this.#held.add(lease)
    this.#dueIn(lease, forMs / RENEWALS_PER_LEASE)
  }

  /**
   * Ends the deadline of a lease, and so its renewal. It does not end the lease in the store: a
   * commit or a release does.
   */
  end(lease: HeldLease): void {
    this.#held.delete(lease)
    this.#deadlines.end(lease)
  }

  /**
   * Renews a lease that is held. Each lease has its own command, so that a cluster node that hangs
   * does not delay the renewals on other nodes. If a renewal fails, two thirds of the lease remain.
   * Retries are twice as frequent as renewals.
   */
  async renew(lease: HeldLease): Promise<void> {
    if (!this.#held.has(lease)) return
    const { grant, leaseMs } = lease
    const sentAt = this.#clock.now()
    this.#dueIn(lease, leaseMs / RENEWALS_PER_LEASE)
    try {
      const [reply] = await this.#renewer.renew([grant], leaseMs)
      if (!this.#held.has(lease)) return
      if (reply !== true) this.#stopRenewal(lease)
      callHook(lease, reply === true, sentAt)
    } catch {
      if (this.#held.has(lease)) this.#dueIn(lease, leaseMs / (2 * RENEWALS_PER_LEASE))
    }
  }

  #dueIn(lease: HeldLease, ms: number): void {
    this.#deadlines.set(lease, Math.min(this.#clock.now() + ms, lease.endsAt))
  }

  #stopRenewal(lease: HeldLease): void {
    this.#held.delete(lease)
    if (lease.endsAt === Infinity) this.#deadlines.end(lease)
    else this.#deadlines.set(lease, lease.endsAt)
  }

  /**
   * Releases a lease that has no holder, so that other processes need not wait until it ends.
   * `send` rejects, or resolves with undefined, if the store did not reply. Resolves after the
   * first try, because no caller must wait for an unavailable store.
   */
  async release(send: () => unknown): Promise<void> {
    if (!(await isConfirmed(send))) void this.#releaseAgain(send)
  }

  async #releaseAgain(send: () => unknown): Promise<void> {
    for (const delayMs of RELEASE_AGAIN_MS) {
      if (this.isStopped) return
      await new Promise<void>((resolve) => this.#clock.setTimer(delayMs, resolve))
      if (await isConfirmed(send)) return
    }
  }
}

/** A hook that throws must not stop the renewal of other leases. */
function callHook(lease: HeldLease, isOurs: boolean, sentAt: number): void {
  try {
    if (isOurs) lease.renewed?.(sentAt)
    else lease.lost?.()
  } catch (error) {
    process.emitWarning(messageOf(error), 'StampedeHookWarning')
  }
}

const TOKEN_BYTES = 16
/** Random bytes are generated for many tokens at once, which costs hardly more than for one. */
const TOKENS_AT_ONCE = 256
let random: Buffer = Buffer.alloc(0)
/** Bytes of `random` that are in tokens. A view of the rest would be an object for each token. */
let used = 0

/**
 * 128 random bits in base64url. A process that does not know the token of a lease cannot guess it,
 * and so cannot end the lease.
 */
export function newToken(): string {
  if (used === random.length) {
    random = randomBytes(TOKEN_BYTES * TOKENS_AT_ONCE)
    used = 0
  }
  const start = used
  used += TOKEN_BYTES
  return random.toString('base64url', start, used)
}

/** Sends a release. A store of the app may throw where it should reject. */
async function isConfirmed(send: () => unknown): Promise<boolean> {
  try {
    return (await send()) !== undefined
  } catch {
    return false
  }
}
