// The idempotency store in one process: the protocol of lua/*-record-1.lua on a Map. A record is
// never evicted before it expires, otherwise its handler could run again. If there are too many
// records, new keys are refused.

import { ownBytes, stringBytes } from '../entry/entry.ts'
import { storeUnavailable } from '../errors.ts'
import { isSameRequest } from '../http/fingerprint.ts'
import { ANY_FENCE, type Grant } from '../ports/grant.ts'
import type {
  BeginReply,
  BeginRequest,
  Fingerprints,
  Finish,
  FinishReply,
  Force,
  IdempotencyHooks,
  IdempotencyStore,
  Inspection,
  LazyFinish,
  LazyFrame,
  LazyIdempotencyStore,
  RecordPage,
  Settlement,
  SettleReply,
} from '../ports/idempotency-store.ts'
import { LeasedRecords } from './expiring-map.ts'

type Frame = Uint8Array | LazyFrame

class Record {
  state: 'running' | Finish['as'] = 'released'
  readonly fingerprints: Fingerprints
  /** Token of the running attempt, or '' if none runs. */
  token = ''
  until = 0
  fence = '0'
  attempt = 0
  /** Number of consecutive attempts whose lease expired. */
  lost = 0
  /** Whether the lease of an earlier attempt expired. */
  recovery = false
  /** Token of the attempt that finished the record, or '' if none did. */
  ended = ''
  readonly createdAt: number
  expiresAt: number = Infinity
  waiting = false
  frame: Frame | undefined
  /** Undefined until the first step is stored. */
  steps: Map<string, Uint8Array> | undefined
  /** Size of the record in the total. */
  bytes = 0

  /** Greater than that of each earlier record. */
  readonly order: number

  constructor(fingerprints: Fingerprints, now: number, order: number) {
    this.fingerprints = fingerprints
    this.createdAt = now
    this.order = order
  }
}

/** Memory of a record with its key and fingerprints, measured by `test/soak/heap.test.ts`. */
const RECORD_BYTES = 660
/** Memory of the map of steps. */
const STEPS_BYTES = 190
/** Memory of a step without its name and bytes. */
const STEP_BYTES = 250

function bytesOf({ frame, steps }: Record): number {
  let bytes = RECORD_BYTES
  if (frame !== undefined) bytes += 'encode' in frame ? frame.bytes : frame.buffer.byteLength
  if (steps === undefined) return bytes
  bytes += STEPS_BYTES
  for (const [name, value] of steps) {
    bytes += STEP_BYTES + stringBytes(name) + value.buffer.byteLength
  }
  return bytes
}

function frameOf(frame: Frame): Uint8Array {
  return 'encode' in frame ? frame.encode() : frame
}

const NO_STEPS: ReadonlyMap<string, Uint8Array> = new Map()

const MOST_RECORDS = 100_000
const MOST_BYTES = 256 * 1024 * 1024
const FULL = `the store is full (${MOST_RECORDS} keys or ${MOST_BYTES} bytes), and no key has expired; use Redis`

export class MemoryIdempotency
  extends LeasedRecords<IdempotencyHooks, Record>
  implements LazyIdempotencyStore
{
  protected readonly user = 'idempotency'
  #bytes = 0
  #created = 0

  /** Expired records count until they are swept. */
  get size(): { entries: number; bytes: number } {
    return { entries: this.records.size, bytes: this.#bytes }
  }

  begin(key: string, request: BeginRequest): BeginReply {
    const now = this.now()
    const record = this.records.get(key) ?? this.#create(request.fingerprints)
    if (!isSameRequest(record.fingerprints, request.fingerprints)) return { status: 'mismatch' }
    if (record.frame !== undefined) {
      const frame = frameOf(record.frame)
      return { status: 'completed', frame, forMs: record.expiresAt - now }
    }
    if (record.state === 'running' && now < record.until) {
      if (record.token === request.token) return begun(key, record)
      if (request.wait) record.waiting = true
      return { status: 'busy', forMs: record.until - now }
    }
    if (record.state === 'running') this.#lapse(record, request)
    if (record.state === 'uncertain') return { status: 'uncertain' }
    if (record.attempt === 0 && this.#isFull() && !(this.records.sweep() && !this.#isFull())) {
      throw storeUnavailable(this.name, 'begin', new Error(FULL))
    }
    this.records.set(key, record)
    this.#count(record)
    record.state = 'running'
    record.token = request.token
    record.ended = ''
    record.until = now + request.leaseMs
    record.fence = this.fences.next()
    record.attempt += 1
    record.expiresAt = now + Math.max(request.retentionMs, request.leaseMs)
    return begun(key, record)
  }

  finish(grant: Grant, finish: Finish | LazyFinish, fingerprints: Fingerprints): FinishReply {
    const { key, token, fence } = grant
    const known = this.records.get(key)
    const record = known ?? this.#create(fingerprints)
    if (known === undefined) {
      if (finish.as !== 'completed' || fence === ANY_FENCE) return 'stale'
      record.fence = fence
      record.attempt = 1
      this.records.set(key, record)
    } else if (this.ours(grant) === undefined) {
      const isNewest = fence === ANY_FENCE || record.fence === fence
      const isSame = isNewest && record.state === finish.as && record.ended === token
      return isSame ? 'finished' : 'stale'
    }
    if (finish.as === 'released' && fence !== ANY_FENCE) record.lost = 0
    this.#end(key, record, finish)
    record.ended = token
    return known === undefined ? 'resurrected' : 'finished'
  }

  async keepStep(grant: Grant, name: string, value: Uint8Array): Promise<'kept' | 'stale'> {
    const record = this.ours(grant)
    if (record === undefined) return 'stale'
    record.steps ??= new Map()
    record.steps.set(name, ownBytes(value))
    this.#count(record)
    return 'kept'
  }

  async inspect(key: string): Promise<Inspection | undefined> {
    const record = this.records.get(key)
    if (record === undefined) return undefined
    return { ...shown(record, this.now()), frame: record.frame && frameOf(record.frame) }
  }

  /** The oldest records first, as in the map. The cursor is the order of the last record. */
  async list(cursor: string, limit: number): Promise<RecordPage> {
    const records: Array<RecordPage['records'][number]> = []
    let last = Number(cursor)
    for (const key of this.records.keys()) {
      const record = this.records.get(key)
      if (record === undefined || record.order <= last) continue
      if (records.length === limit) return { cursor: `${last}`, records }
      records.push({ key, ...shown(record, this.now()) })
      last = record.order
    }
    return { cursor: '', records }
  }

  async settle(key: string, end: Settlement, { force }: { force: Force }): Promise<SettleReply> {
    const record = this.records.get(key)
    if (record === undefined) return 'absent'
    const { state, fence } = shown(record, this.now())
    const isMeant =
      typeof force === 'string'
        ? force === `${state} ${fence}`
        : force || (state !== 'running' && state !== 'completed')
    if (!isMeant) return 'refused'
    record.fence = this.fences.next()
    record.lost = 0
    record.recovery = false
    record.ended = ''
    this.#end(key, record, end)
    queueMicrotask(() => this.hooks?.onSettled(key))
    return 'settled'
  }

  /** Handles the expired lease of a record when another request begins. */
  #lapse(record: Record, request: BeginRequest): void {
    record.lost += 1
    record.recovery = true
    if (record.lost < request.maxAttempts) return
    // The token stays, so that the expired attempt can still finish the record.
    record.state = 'uncertain'
    record.expiresAt = this.now() + request.keepUncertainMs
  }

  #end(key: string, record: Record, finish: Finish | LazyFinish): void {
    record.state = finish.as
    record.token = ''
    const frame = finish.as === 'completed' ? finish.frame : undefined
    record.frame = frame instanceof Uint8Array ? ownBytes(frame) : frame
    record.expiresAt = this.now() + finish.keepMs
    this.#count(record)
    if (record.waiting) queueMicrotask(() => this.hooks?.onWake(key))
    record.waiting = false
  }

  protected override dropped(record: Record): void {
    this.#count(record, 0)
  }

  #create(fingerprints: Fingerprints): Record {
    this.#created += 1
    return new Record(fingerprints, this.now(), this.#created)
  }

  #isFull(): boolean {
    return this.records.size >= MOST_RECORDS || this.#bytes >= MOST_BYTES
  }

  #count(record: Record, bytes: number = bytesOf(record)): void {
    this.#bytes += bytes - record.bytes
    record.bytes = bytes
  }
}

function begun(key: string, record: Record): BeginReply {
  const { token, fence, attempt, recovery, steps } = record
  const grant = { key, token, fence }
  const kept = steps === undefined ? NO_STEPS : new Map(steps)
  return { status: 'begun', grant, attempt, isRecovery: recovery, steps: kept }
}

/** The record for operators, without its frame, which would have to be encoded. */
function shown(record: Record, now: number): Omit<Inspection, 'frame'> {
  const leaseForMs = record.state === 'running' ? Math.max(0, record.until - now) : 0
  return {
    state: record.state === 'running' && leaseForMs === 0 ? 'lapsed' : record.state,
    attempt: record.attempt,
    fence: record.fence,
    leaseForMs,
    ageMs: now - record.createdAt,
    keepForMs: record.expiresAt - now,
    steps: [...(record.steps?.keys() ?? [])],
  }
}

const { finish: ownFinish } = MemoryIdempotency.prototype

/** Whether the store is one whose `finish` an app has not replaced. */
export function encodesLater(store: IdempotencyStore): store is LazyIdempotencyStore {
  return store.finish === ownFinish
}
