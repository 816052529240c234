// IdempotencyStore on Redis. Each operation is one script on one key, in one round trip and within
// a time budget. Redis accepts only whole milliseconds. A wake-up is sent to the waiting process
// only. An operator's decision is sent to all processes.

import {
  ANY_FENCE,
  type IdempotencyStore,
  storeInUse,
  storeUnavailable,
} from '@stampede/core/store'
import { KEEP_MS, type RedisLink } from '../connection/link.ts'
import type { LinkListener } from '../connection/subscription.ts'
import { IDEMPOTENCY_PREFIX as PREFIX } from '../protocol/keys.ts'
import { bytes, duration } from '../protocol/lookup-reply.ts'
import {
  beginRecord,
  finishRecord,
  inspectRecord,
  keepStep,
  renew,
  settleRecord,
} from '../protocol/scripts.generated.ts'
import { RedisOperator } from './redis-operator.ts'

type BeginReply = Awaited<ReturnType<IdempotencyStore['begin']>>
type BeginRequest = Parameters<IdempotencyStore['begin']>[1]

type IdempotencyHooks = Parameters<IdempotencyStore['attach']>[0]
type Inspection = NonNullable<Awaited<ReturnType<IdempotencyStore['inspect']>>>
type RecordPage = Awaited<ReturnType<IdempotencyStore['list']>>

const BEGINS = { begins: true }
const ALSO_IF_UNAVAILABLE = { ignoreBreaker: true }
/** The scripts of a list must not delay requests in the queue, or open the breaker of the app. */
const LISTS = { isBackground: true }

export class RedisIdempotency implements IdempotencyStore {
  readonly name = 'redis'
  readonly maxBodyBytes: number
  readonly #link: RedisLink
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
      ...hooks,
      onWake: (message) => {
        const key = String(message)
        if (key.startsWith(PREFIX)) hooks.onWake(key.slice(PREFIX.length))
      },
      onSettled: (key) => {
        if (key.startsWith(PREFIX)) hooks.onSettled(key.slice(PREFIX.length))
      },
      onReady: () => hooks.onBack(),
    }
    this.#link.open(hooks.clock, this.#listener)
    void warnOfEviction(this.#link)
  }

  begin(key: string, request: BeginRequest): Promise<BeginReply> {
    const read = (raw: unknown[]) => {
      const reply = readBegin(raw, key, request.token)
      if (request.wait && reply.status === 'busy') this.#link.watch(reply.forMs)
      return reply
    }
    const { token, fingerprints, maxAttempts } = request
    const args = [
      token,
      fingerprints.exact,
      fingerprints.canonical,
      Math.ceil(request.leaseMs),
      Math.ceil(request.retentionMs),
      maxAttempts,
      Math.ceil(request.keepUncertainMs),
      request.wait ? this.#link.processId : '',
    ]
    return this.#link.run(beginRecord, PREFIX + key, args, read, BEGINS)
  }

  readonly renew: IdempotencyStore['renew'] = (grants, leaseMs) =>
    this.#link.renew(renew, grants, leaseMs, PREFIX)

  readonly finish: IdempotencyStore['finish'] = ({ key, token, fence }, finish, prints) => {
    const { wakePrefix } = this.#link.names
    const keepMs = Math.ceil(finish.keepMs)
    const frame = finish.as === 'completed' ? bufferOf(finish.frame) : ''
    const record = PREFIX + key
    const end = [token, fence, finish.as, keepMs, frame]
    const args = [...end, prints.exact, prints.canonical, record, wakePrefix]
    // This may follow a begin without a reply. If a frozen Redis continues, it then ends the
    // attempt right after the begin. So the command is sent although Redis seems unavailable.
    const options = fence === ANY_FENCE ? ALSO_IF_UNAVAILABLE : undefined
    return this.#link.run(finishRecord, record, args, readFinish, options)
  }

  readonly keepStep: IdempotencyStore['keepStep'] = ({ key, token, fence }, name, value) => {
    const args = [token, fence, name, bufferOf(value), KEEP_MS]
    const read = (reply: unknown) => (String(reply) === 'KEPT' ? 'kept' : 'stale')
    return this.#link.run(keepStep, PREFIX + key, args, read)
  }

  readonly inspect: IdempotencyStore['inspect'] = (key) =>
    this.#link.run(inspectRecord, PREFIX + key, [1], readInspection)

  async list(cursor: string, limit: number): Promise<RecordPage> {
    const page = await new RedisOperator(this.#link).scan('idempotency', cursor, limit)
    const listed = page.keys.map(async (key) => {
      const inspected = this.#link.run(inspectRecord, PREFIX + key, [0], readListed, LISTS)
      const found = await inspected.catch(readWrongType)
      return found === undefined ? [] : { ...found, key }
    })
    return { cursor: page.cursor, records: (await Promise.all(listed)).flat() }
  }

  /** Runs even while the breaker is open, as purges do. */
  readonly settle: IdempotencyStore['settle'] = (key, settlement, { force }) => {
    const { wakePrefix, settledChannel } = this.#link.names
    const { as, keepMs } = settlement
    const record = PREFIX + key
    const frame = as === 'completed' ? bufferOf(settlement.frame) : ''
    const end = [as, Math.ceil(keepMs), frame, force === true ? 1 : force || 0]
    const args = [...end, record, wakePrefix, settledChannel]
    return this.#link.run(settleRecord, record, args, readSettle, ALSO_IF_UNAVAILABLE)
  }

  async close(): Promise<void> {
    if (this.#listener !== undefined) this.#link.close(this.#listener)
  }
}

function readFinish([status]: unknown[]) {
  if (String(status) === 'FINISHED') return 'finished'
  return String(status) === 'RESURRECTED' ? 'resurrected' : 'stale'
}

function readSettle([status]: unknown[]) {
  if (String(status) === 'SETTLED') return 'settled'
  return String(status) === 'ABSENT' ? 'absent' : 'refused'
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}

// Parses the replies of lua/begin-record-1.lua and lua/inspect-record-1.lua. The server is not
// trusted, so each part is checked.

export function readBegin(raw: unknown, key: string, token: string): BeginReply {
  const parts: readonly unknown[] = Array.isArray(raw) ? raw : [raw]
  switch (String(parts[0])) {
    case 'BEGUN': {
      const attempt = Number(parts[3])
      const fence = String(parts[2])
      if (!Number.isSafeInteger(attempt) || attempt < 1 || !/^\d+$/.test(fence))
        throw storeUnavailable('redis', 'begin-record', 'the reply has no attempt or no fence')
      return {
        status: 'begun',
        grant: { key, token, fence },
        attempt,
        isRecovery: String(parts[4]) !== '0',
        steps: parts.length > 5 ? readSteps(parts.slice(5)) : NO_STEPS,
      }
    }
    case 'MISMATCH':
      return { status: 'mismatch' }
    case 'BUSY':
      return { status: 'busy', forMs: duration(parts[2]) }
    case 'COMPLETED':
      return { status: 'completed', forMs: duration(parts[2]), frame: readFrame(parts[3]) }
    case 'UNCERTAIN':
      return { status: 'uncertain' }
    default:
      throw storeUnavailable('redis', 'begin-record', `unknown reply ${String(parts[0])}`)
  }
}

function readFrame(value: unknown): Buffer {
  const frame = bytes(value)
  if (frame !== undefined) return frame
  throw storeUnavailable('redis', 'begin-record', 'the reply has no frame')
}

const NO_STEPS: ReadonlyMap<string, Uint8Array> = new Map()

function readSteps(flat: readonly unknown[]): Map<string, Uint8Array> {
  const steps = new Map<string, Uint8Array>()
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const value = bytes(flat[i + 1])
    // A copy, because `value` is a view of the whole socket buffer, and an attempt may run for
    // minutes.
    if (value !== undefined) steps.set(String(flat[i]), Uint8Array.from(value))
  }
  return steps
}

const STATES = ['running', 'lapsed', 'completed', 'released', 'uncertain'] as const

/**
 * Parses the state of a record. Undefined if there is no record. Throws if this version cannot read
 * the record.
 */
export function readInspection(raw: unknown): Inspection | undefined {
  const parts: readonly unknown[] = Array.isArray(raw) ? raw : [raw]
  const found = readListed(raw)
  if (found === undefined) return undefined
  const { state } = found
  if (state === 'unreadable')
    throw storeUnavailable(
      'redis',
      'inspect-record',
      'the record is malformed or has the layout of another version',
    )
  return { ...found, state, frame: state === 'completed' ? bytes(parts[6]) : undefined }
}

type Listed = Omit<RecordPage['records'][number], 'key'>

/** A record of another program, which is not a hash. */
function readWrongType(error: Error): Listed | undefined {
  if (error.message.includes('WRONGTYPE')) return readListed('UNKNOWN')
  throw error
}

/** A record that this version cannot read must not hide the others of a list. */
function readListed(raw: unknown): Listed | undefined {
  const parts: readonly unknown[] = Array.isArray(raw) ? raw : [raw]
  const text = String(parts[0])
  if (text === 'ABSENT') return undefined
  return {
    state: STATES.find((each) => each === text) ?? 'unreadable',
    attempt: Number(parts[1] ?? 0),
    fence: String(parts[2] ?? ''),
    leaseForMs: duration(parts[3]),
    ageMs: duration(parts[4]),
    keepForMs: duration(parts[5]),
    steps: parts.slice(7).map(String),
  }
}

/**
 * Warns if Redis may evict idempotency records. If a record is evicted, its request can run twice
 * without an error. Never rejects.
 */
async function warnOfEviction(link: RedisLink): Promise<void> {
  try {
    await link.opened
    const info = String(await link.ask('INFO', 'memory'))
    const [, policy = 'noeviction'] = /^maxmemory_policy:(\S+)/m.exec(info) ?? []
    // Without a limit, Redis never evicts.
    if (policy === 'noeviction' || !/^maxmemory:[1-9]/m.test(info)) return
    process.emitWarning(
      `Redis may evict idempotency records: maxmemory-policy is ${policy}. The request of an evicted key ` +
        'can run twice. Set maxmemory-policy to noeviction, or keep idempotency keys on a server apart ' +
        'from the cache.',
      { type: 'StampedeWarning', code: 'STAMPEDE_EVICTION' },
    )
  } catch {
    // The user may not run INFO, or Redis is unavailable.
  }
}
