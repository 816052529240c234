// IdempotencyStore on Redis: each operation is one script, one key, one round trip, within a time budget. Whoever
// waits is woken on its own channel; what an operator settled is announced to all, as purges are.

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
} from '@stampede/core'
import { warnOfEviction } from './eviction-check.ts'
import { readBegin, readInspection } from './idempotency-reply.ts'
import type { RedisLink } from './link.ts'
import type { ScriptArgument } from './run-script.ts'
import {
  beginRecord,
  finishRecord,
  inspectRecord,
  keepStep,
  renew,
  type Script,
  settleRecord,
} from './scripts.generated.ts'
import type { Hearer } from './subscription.ts'
import { mayHaveRun, Undos } from './undo.ts'

/** A record outlives a lease that was renewed by this much, so that whoever comes later knows what was tried. */
const KEEP_MS = 60_000
/** The token alone says who it is: of an attempt whose grant was never heard of, the fence is not known. */
const ANY_FENCE = '*'
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
      onWake: (key) => {
        if (key.startsWith(PREFIX)) hooks.onWake(key.slice(PREFIX.length))
      },
      onSettled: (key) => {
        if (key.startsWith(PREFIX)) hooks.onSettled(key.slice(PREFIX.length))
      },
      onGap: () => hooks.onGap(),
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
      // Else a retry of the client would be told for a whole lease that somebody is at it.
      const { token, leaseMs } = request
      if (mayHaveRun(error)) this.#undos.start(token, leaseMs, () => this.#undo(key, request))
      throw error
    }
    const reply = this.#checked(beginRecord, () => readBegin(raw, key, request.token))
    if (request.wait && reply.status === 'busy') this.#link.watch(reply.forMs)
    return reply
  }

  async renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    const replies = grants.map(({ key, token, fence }) =>
      this.#link.run(renew, PREFIX + key, [token, fence, whole(leaseMs), KEEP_MS]),
    )
    return (await Promise.all(replies)).map((reply) => String(reply) === 'RENEWED')
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

  /** Tried even while the breaker is open, as purges are; and not after the operator was told that it failed. */
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

  /** A reply that cannot be read is none. */
  #checked<T>(script: Script, read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw storeUnavailable(this.name, script.name, error)
    }
  }

  /**
   * Takes back what may have begun: nobody will run it. Without effect if that is not so. An attempt that never ran
   * says nothing about those before it, so that they count on.
   */
  async #undo(key: string, request: BeginRequest): Promise<void> {
    const grant = { key, token: request.token, fence: ANY_FENCE }
    const finish = { as: 'released', keepMs: request.retentionMs } as const
    await this.#whileWanted(finishRecord, key, this.#finishArguments(grant, finish, UNKNOWN))
  }

  /**
   * Runs a script whose last argument is until when it is wanted: a command that waits in a frozen server's buffer
   * runs when it thaws, long after its caller was told that it failed.
   */
  async #whileWanted(
    script: Script,
    key: string,
    args: readonly ScriptArgument[],
    insist = false,
  ): Promise<unknown[]> {
    const { budgetMs } = this.#link
    const clock = this.#link.clockOf(PREFIX + key)
    // A second time if the server's clock was set forward, or our estimate of it was poor; then it is exact.
    for (let attempt = 0; attempt < 2; attempt++) {
      const sentAt = clock.now()
      const all = [...args, clock.notAfter(budgetMs)]
      const raw = (await this.#link.run(script, PREFIX + key, all, insist)) as unknown[]
      clock.observe(Number(raw[1]), sentAt)
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
