// IdempotencyStore on Redis. Each operation is one script on one key, in one round trip and within
// a time budget. A wake-up is sent to the waiting process only. An operator's decision is sent to
// all processes.

import {
  ANY_FENCE,
  type BeginReply,
  type BeginRequest,
  type Fingerprints,
  type Finish,
  type FinishReply,
  type Grant,
  type IdempotencyHooks,
  type IdempotencyStore,
  type Inspection,
  mayHaveRun,
  type Settlement,
  type SettleReply,
  storeInUse,
  storeUnavailable,
} from '@stampede/core/store'
import { KEEP_MS, type RedisLink } from '../connection/link.ts'
import type { LinkListener } from '../connection/subscription.ts'
import { readBegin, readInspection } from '../protocol/idempotency-reply.ts'
import type { ScriptArgument } from '../protocol/run-script.ts'
import {
  beginRecord,
  finishRecord,
  inspectRecord,
  keepStep,
  renew,
  type Script,
  settleRecord,
} from '../protocol/scripts.generated.ts'
import { warnOfEviction } from './eviction-check.ts'
import { Undos } from './undo.ts'

const NO_DEADLINE = 0
/** The fingerprints of an undo, which never writes a lost record again. */
const NO_FINGERPRINTS: Fingerprints = { exact: '', canonical: '' }
/** Keeps idempotency keys apart from locks and cached entries of the same name. */
const PREFIX = 'i:'

export class RedisIdempotency implements IdempotencyStore {
  readonly name = 'redis'
  readonly maxBodyBytes: number
  readonly #link: RedisLink
  readonly #undos = new Undos()
  #listener: LinkListener | undefined

  constructor(link: RedisLink, maxBodyBytes: number) {
    this.maxBodyBytes = maxBodyBytes
    this.#link = link
  }

  get isReceiving(): boolean {
    return this.#link.isReceiving
  }

  attach(hooks: IdempotencyHooks): void {
    if (this.#listener !== undefined) throw storeInUse('idempotency')
    this.#listener = {
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
    this.#link.open(hooks.clock, this.#listener)
    void warnOfEviction(this.#link)
  }

  begin(key: string, request: BeginRequest): Promise<BeginReply> {
    const stopping = this.#undos.stop(request.token)
    if (stopping === undefined) return this.#begin(key, request)
    return stopping.then(() => this.#begin(key, request))
  }

  #begin(key: string, request: BeginRequest): Promise<BeginReply> {
    const { token, leaseMs } = request
    const keys = this.#link.keysOf(beginRecord, PREFIX + key)
    const args = inTime(this.#beginArguments(request))
    return this.#link.operate(beginRecord.name, keys[0], { begins: true }, (operation) => {
      operation.onFailed = (error) => {
        // The attempt may have begun in Redis, but no handler runs. Without the undo, a retry of
        // the client would get 409 until the lease ends.
        if (mayHaveRun(error)) this.#undos.start(token, leaseMs, () => this.#undo(key, request))
        return error
      }
      operation.run(beginRecord, keys, args, (raw: unknown[]) => {
        operation.onFailed = undefined
        const reply = this.#parsed(beginRecord, () => readBegin(raw, key, token))
        if (request.wait && reply.status === 'busy') this.#link.watch(reply.forMs)
        operation.resolve(reply)
      })
    })
  }

  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    return this.#link.renew(renew, grants, leaseMs, PREFIX)
  }

  finish(grant: Grant, finish: Finish, fingerprints: Fingerprints): Promise<FinishReply> {
    const args = this.#finishArguments(grant, finish, fingerprints)
    return this.#link.run(finishRecord, PREFIX + grant.key, [...args, NO_DEADLINE], readFinish)
  }

  keepStep(grant: Grant, name: string, value: Uint8Array): Promise<'kept' | 'stale'> {
    const { key, token, fence } = grant
    const args = [token, fence, name, bufferOf(value), KEEP_MS]
    const read = (reply: unknown) => (String(reply) === 'KEPT' ? 'kept' : 'stale')
    return this.#link.run(keepStep, PREFIX + key, args, read)
  }

  inspect(key: string): Promise<Inspection | undefined> {
    const read = (raw: unknown) => this.#parsed(inspectRecord, () => readInspection(raw))
    return this.#link.run(inspectRecord, PREFIX + key, [], read)
  }

  /**
   * Runs even while the breaker is open, as purges do. The command carries a deadline, so Redis
   * cannot run it after the operator got an error.
   */
  settle(key: string, settlement: Settlement, { force }: { force: boolean }): Promise<SettleReply> {
    const { wakePrefix, settledChannel } = this.#link.names
    const { as, keepMs } = settlement
    const args = [as, wholeMs(keepMs), frameOf(settlement), force ? 1 : 0, PREFIX + key]
    const channels = [wakePrefix, settledChannel]
    const read = ([status]: unknown[]): SettleReply => {
      if (String(status) === 'SETTLED') return 'settled'
      return String(status) === 'ABSENT' ? 'absent' : 'refused'
    }
    const options = { ignoreBreaker: true }
    return this.#link.run(settleRecord, PREFIX + key, inTime([...args, ...channels]), read, options)
  }

  async close(): Promise<void> {
    if (this.#listener !== undefined) this.#link.close(this.#listener)
  }

  /** Parses a reply. A malformed reply is reported as an unavailable store. */
  #parsed<T>(script: Script, parse: () => T): T {
    try {
      return parse()
    } catch (error) {
      throw storeUnavailable(this.name, script.name, error)
    }
  }

  /**
   * Releases an attempt that may have begun although no process runs it. If the attempt did not
   * begin, this has no effect. Earlier attempts whose leases expired still count for `maxAttempts`.
   */
  #undo(key: string, request: BeginRequest): Promise<FinishReply> {
    const grant = { key, token: request.token, fence: ANY_FENCE }
    const finish = { as: 'released', keepMs: request.retentionMs } as const
    const args = inTime(this.#finishArguments(grant, finish, NO_FINGERPRINTS))
    return this.#link.run(finishRecord, PREFIX + key, args, readFinish)
  }

  #beginArguments(request: BeginRequest): ScriptArgument[] {
    const { token, fingerprints, onLeaseExpired, maxAttempts, wait } = request
    return [
      token,
      fingerprints.exact,
      fingerprints.canonical,
      wholeMs(request.leaseMs),
      wholeMs(request.retentionMs),
      onLeaseExpired,
      maxAttempts,
      wholeMs(request.keepUncertainMs),
      wait ? this.#link.processId : '',
    ]
  }

  #finishArguments(
    { key, token, fence }: Grant,
    finish: Finish,
    { exact, canonical }: Fingerprints,
  ): ScriptArgument[] {
    const ending = [finish.as, wholeMs(finish.keepMs), frameOf(finish)]
    return [token, fence, ...ending, exact, canonical, PREFIX + key, this.#link.names.wakePrefix]
  }
}

/** The arguments of a script whose last one is the deadline of its caller. */
function inTime(args: readonly ScriptArgument[]): (notAfter: number) => ScriptArgument[] {
  return (notAfter) => [...args, notAfter]
}

function readFinish([status]: unknown[]): FinishReply {
  if (String(status) === 'FINISHED') return 'finished'
  return String(status) === 'RESURRECTED' ? 'resurrected' : 'stale'
}

function frameOf(finish: Finish): ScriptArgument {
  return finish.as === 'completed' ? bufferOf(finish.frame) : ''
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Rounds up, because Redis accepts only whole milliseconds. */
function wholeMs(ms: number): number {
  return Math.ceil(ms)
}
