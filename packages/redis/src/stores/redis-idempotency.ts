// IdempotencyStore on Redis. Each operation is one script, one key and one round trip, within a
// time budget. Waiters are woken on their own channel. An operator's settlement is published to all
// processes.

import {
  type BeginReply,
  type BeginRequest,
  type Fingerprints,
  type Finish,
  type FinishReply,
  type Grant,
  type IdempotencyHooks,
  type IdempotencyStore,
  type Inspection,
  type Settlement,
  type SettleReply,
  storeInUse,
  storeUnavailable,
} from '@stampede/core/store'
import { KEEP_MS, type RedisLink } from '../connection/link.ts'
import type { Hearer } from '../connection/subscription.ts'
import { readBegin, readInspection } from '../protocol/idempotency-reply.ts'
import type { ScriptArgument } from '../protocol/run-script.ts'
import {
  beginRecord,
  finishRecord,
  inspectRecord,
  keepStep,
  type Script,
  settleRecord,
} from '../protocol/scripts.generated.ts'
import { warnOfEviction } from './eviction-check.ts'
import { ANY_FENCE, mayHaveRun, Undos } from './undo.ts'

const ANY_TIME = 0
const UNKNOWN: Fingerprints = { exact: '', canonical: '' }
/** Idempotency keys, locks and cached entries of the same name never meet. */
const PREFIX = 'i:'

export class RedisIdempotency implements IdempotencyStore {
  readonly name = 'redis'
  readonly #link: RedisLink
  readonly #undos = new Undos()
  #hearer: Hearer | undefined

  constructor(link: RedisLink) {
    this.#link = link
  }

  get hearing(): boolean {
    return this.#link.hearing
  }

  attach(hooks: IdempotencyHooks): void {
    if (this.#hearer !== undefined) throw storeInUse('idempotency')
    this.#hearer = {
      onWake: (message) => {
        const key = String(message)
        if (key.startsWith(PREFIX)) hooks.onWake(key.slice(PREFIX.length))
      },
      onSettled: (key) => {
        if (key.startsWith(PREFIX)) hooks.onSettled(key.slice(PREFIX.length))
      },
      onGap: () => hooks.onGap(),
      onReady: () => hooks.onBack(),
      onLost: () => hooks.onLost(),
      onError: (operation, error) => hooks.onError(operation, error),
    }
    this.#link.open(hooks.clock, this.#hearer)
    void warnOfEviction(this.#link)
  }

  async begin(key: string, request: BeginRequest): Promise<BeginReply> {
    await this.#undos.stop(request.token)
    let raw: unknown[]
    try {
      raw = await this.#whileWanted(beginRecord, key, this.#beginArguments(request))
    } catch (error) {
      // Otherwise a retry of the client would get 409 for a whole lease, although no attempt runs.
      const { token, leaseMs } = request
      if (mayHaveRun(error)) this.#undos.start(token, leaseMs, () => this.#undo(key, request))
      throw error
    }
    const reply = this.#checked(beginRecord, () => readBegin(raw, key, request.token))
    if (request.wait && reply.status === 'busy') this.#link.watch(reply.forMs)
    return reply
  }

  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    return this.#link.renew(grants, leaseMs, PREFIX)
  }

  async finish(grant: Grant, finish: Finish, fingerprints: Fingerprints): Promise<FinishReply> {
    const args = this.#finishArguments(grant, finish, fingerprints)
    const raw = await this.#link.run(finishRecord, PREFIX + grant.key, [...args, ANY_TIME])
    const reply = String((raw as unknown[])[0])
    if (reply === 'FINISHED') return 'finished'
    return reply === 'RESURRECTED' ? 'resurrected' : 'stale'
  }

  async keepStep(grant: Grant, name: string, value: Uint8Array): Promise<'kept' | 'stale'> {
    const { key, token, fence } = grant
    const args = [token, fence, name, bufferOf(value), KEEP_MS]
    return String(await this.#link.run(keepStep, PREFIX + key, args)) === 'KEPT' ? 'kept' : 'stale'
  }

  async inspect(key: string): Promise<Inspection | undefined> {
    const raw = await this.#link.run(inspectRecord, PREFIX + key, [])
    return this.#checked(inspectRecord, () => readInspection(raw))
  }

  /**
   * Runs even while the breaker is open, as purges do. It carries a deadline, so it cannot run
   * after the operator was told that it failed.
   */
  async settle(
    key: string,
    settlement: Settlement,
    { force }: { force: boolean },
  ): Promise<SettleReply> {
    const { wakePrefix, settledChannel } = this.#link.names
    const { as, keepMs } = settlement
    const args = [as, whole(keepMs), frameOf(settlement), force ? 1 : 0, PREFIX + key]
    const channels = [wakePrefix, settledChannel]
    const raw = await this.#whileWanted(settleRecord, key, [...args, ...channels], true)
    const reply = String(raw[0])
    if (reply === 'SETTLED') return 'settled'
    return reply === 'ABSENT' ? 'absent' : 'refused'
  }

  async close(): Promise<void> {
    if (this.#hearer !== undefined) this.#link.close(this.#hearer)
  }

  /** An unreadable reply counts as no reply. */
  #checked<T>(script: Script, read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw storeUnavailable(this.name, script.name, error)
    }
  }

  /**
   * Takes back an attempt that may have begun, since no process will run it. No effect if it had
   * not begun. Earlier attempts that lost their leases still count.
   */
  async #undo(key: string, request: BeginRequest): Promise<void> {
    const grant = { key, token: request.token, fence: ANY_FENCE }
    const finish = { as: 'released', keepMs: request.retentionMs } as const
    await this.#whileWanted(finishRecord, key, this.#finishArguments(grant, finish, UNKNOWN))
  }

  /**
   * Runs a script whose last argument is the deadline of its caller. A frozen server would
   * otherwise run the command when it thaws, long after the caller was told that it failed.
   */
  async #whileWanted(
    script: Script,
    key: string,
    args: readonly ScriptArgument[],
    insist = false,
  ): Promise<unknown[]> {
    const { budgetMs } = this.#link
    const clock = this.#link.clockOf(PREFIX + key)
    // A second try if the server's clock was set forward or our estimate of it was poor. The first
    // reply made it exact.
    for (let attempt = 0; attempt < 2; attempt++) {
      const all = [...args, clock.notAfter(budgetMs)]
      const raw = await this.#link.runTimed(script, PREFIX + key, all, { insist })
      if (String(raw[0]) !== 'LATE') return raw
    }
    throw storeUnavailable(this.name, script.name, new Error('answered too late'))
  }

  #beginArguments(request: BeginRequest): ScriptArgument[] {
    const { token, fingerprints, onLeaseExpired, maxAttempts, wait } = request
    return [
      token,
      fingerprints.exact,
      fingerprints.canonical,
      whole(request.leaseMs),
      whole(request.retentionMs),
      onLeaseExpired,
      maxAttempts,
      whole(request.keepUncertainMs),
      wait ? this.#link.processId : '',
    ]
  }

  #finishArguments(
    { key, token, fence }: Grant,
    finish: Finish,
    { exact, canonical }: Fingerprints,
  ): ScriptArgument[] {
    const ending = [finish.as, whole(finish.keepMs), frameOf(finish)]
    return [token, fence, ...ending, exact, canonical, PREFIX + key, this.#link.names.wakePrefix]
  }
}

function frameOf(finish: Finish): ScriptArgument {
  return finish.as === 'completed' ? bufferOf(finish.frame) : ''
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Redis takes whole milliseconds. */
function whole(ms: number): number {
  return Math.ceil(ms)
}
