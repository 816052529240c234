// stampede.idempotency: inspects and settles idempotency keys, for operators.

import { decodeValue, encodeValue } from '../data/value.ts'
import { closedError, optionError } from '../errors.ts'
import { checkNames, flag, type Reader, readOptions } from '../options.ts'
import type { HeaderList } from '../ports/exchange.ts'
import type {
  Force,
  Inspection,
  RecordPage,
  Settlement,
  SettleReply,
} from '../ports/idempotency-store.ts'
import { type Kept, replayableHeaders } from './kept-response.ts'
import type { GivenAnswer } from './options.ts'
import { jobRecord } from './run-idempotent.ts'
import { type IdempotencyRuntime, onSettled } from './runtime.ts'

/**
 * The key of a job, with its scope if it has one. Or the key that a client sent, with its scope.
 */
export type IdempotencyKeyRef =
  | string
  | { readonly job: string; readonly scope: string }
  | { readonly key: string; readonly scope: string | number | bigint }

/** The state of an idempotency key in the store. */
export interface IdempotencyRecord extends Omit<Inspection, 'fence' | 'frame'> {
  /** Name of the record in the store: a keyed hash of scope and key. Events have it, too. */
  readonly internalKey: string
  /** Fence of the newest attempt. If an operator settles the record, the fence rises. */
  readonly fence: bigint
  /** Response of a completed request. `body` is undefined if it was not stored. */
  readonly response?: {
    readonly status: number
    readonly headers: HeaderList
    readonly body: Uint8Array | undefined
  }
  /** Result of a completed job. */
  readonly value?: unknown
}

/**
 * The operations on idempotency keys. They reject with `ERR_STAMPEDE_OPTION`, `ERR_STAMPEDE_CLOSED`
 * or `ERR_STAMPEDE_STORE_UNAVAILABLE`.
 */
export interface IdempotencyOperator {
  /** The record of a key, or undefined if the store has none. */
  inspect(key: IdempotencyKeyRef): Promise<IdempotencyRecord | undefined>
  /**
   * Lists the records of all keys, without responses and in no order, page by page. The first page
   * has the cursor `''`. A page is the result of a bounded search, so it may be empty before the
   * end, where its `cursor` is `''`. A record whose state changes meanwhile may be listed twice, or
   * be missing. `store`: name of the store.
   */
  list(cursor?: string): Promise<RecordPage & { readonly store: string }>
  /**
   * Lets the next request run the handler. Without `force`, the reply is `refused` if an attempt
   * runs or has completed. With `force: true`, a running attempt loses its lease, and its result
   * does not count. With a record of `inspect` as `force`, the reply is `refused` if its state or
   * attempt is now another one.
   */
  release(key: IdempotencyKeyRef, options?: SettleOptions): Promise<SettleReply>
  /**
   * Completes the key with the response that repeats get, or with `{ value }` for a job. `force` as
   * in `release`. The record is kept for a day.
   */
  resolve(
    key: IdempotencyKeyRef,
    answer: GivenAnswer | { value: unknown },
    options?: SettleOptions,
  ): Promise<SettleReply>
}

interface SettleOptions {
  force?: boolean | Pick<IdempotencyRecord, 'state' | 'fence'> | undefined
}

const FIX_HEADERS = "use names and values that HTTP allows: { location: '/orders/7' }"

/** How long a settled record is kept: a day. */
const RESOLVED_MS = 86_400_000
/** Names that one page of a list examines. */
const LISTED_AT_ONCE = 500

const readForce: Reader<Force> = (where, value) => {
  const { state, fence } = Object(value) as Partial<IdempotencyRecord>
  return state ? `${state} ${fence}` : flag(false)(where, value)
}

/** `create` returns the runtime, and creates it on the first call. */
export function createOperator(create: () => IdempotencyRuntime): IdempotencyOperator {
  const runtime = (): IdempotencyRuntime => {
    const rt = create()
    if (rt.closed) throw closedError()
    return rt
  }
  /** Without an answer, the key is released. */
  const settle = async (ref: IdempotencyKeyRef, options: unknown, answerOf?: () => Kept) => {
    const { force } = readOptions('idempotency', options, { force: readForce })
    const rt = runtime()
    const record = recordOf(rt, ref)
    const answer = answerOf?.()
    const frame = answer && rt.seal.encode(record, answer)
    if (frame !== undefined && rt.seal.decode(record, frame) === undefined) {
      const { headers } = answer as Kept & { type: 'response' }
      const names = headers.map(([name]) => name).join(', ')
      throw optionError('idempotency.resolve.headers', names, FIX_HEADERS)
    }
    const as = frame === undefined ? 'released' : 'completed'
    const end = { as, frame, keepMs: RESOLVED_MS } as Settlement
    const reply = await rt.store.settle(record, end, { force })
    // The store also sends a message to all processes. It may arrive after this reply, so this
    // process acts on it now.
    if (reply !== 'settled') return reply
    const { job, key } = Object(ref) as Readonly<Record<string, string | undefined>>
    rt.events.emit({ type: 'idempotency.settled', key: record, as: end.as }, job ?? key ?? `${ref}`)
    await onSettled(rt, record)
    return reply
  }
  return {
    async inspect(ref) {
      const rt = runtime()
      const record = recordOf(rt, ref)
      const found = await rt.store.inspect(record)
      if (found === undefined) return undefined
      const { frame, fence, ...known } = found
      const kept = shown(frame && rt.seal.decode(record, frame))
      return { ...known, internalKey: record, fence: BigInt(fence), ...kept }
    },
    async list(cursor = '') {
      const { store } = runtime()
      return { store: store.name, ...(await store.list(cursor, LISTED_AT_ONCE)) }
    },
    release: (ref, options) => settle(ref, options),
    resolve: (ref, answer, options) => settle(ref, options, () => keptOf(ref, answer)),
  }
}

function recordOf(rt: IdempotencyRuntime, ref: IdempotencyKeyRef): string {
  if (typeof ref === 'string') return jobRecord(rt, ref)
  const where = 'idempotency: key'
  const known = checkNames(where, ref, ['job', 'key', 'scope'])
  const { job, key } = known
  if (job !== undefined && key === undefined) return jobRecord(rt, job, known.scope)
  const isKey = typeof key === 'string' && key !== '' && job === undefined
  const record = isKey ? rt.hashes.requestKey(known.scope, key) : undefined
  if (record !== undefined) return record
  throw optionError(where, ref, 'use the key of a job, or { scope, key } of a request')
}

/** Checks an answer and converts it for storage. Throws `ERR_STAMPEDE_OPTION`. */
function keptOf(ref: IdempotencyKeyRef, answer: GivenAnswer | { value: unknown }): Kept {
  const where = 'idempotency.resolve'
  if (typeof ref === 'string' || 'job' in ref) {
    const { value } = checkNames(where, answer, ['value'])
    return { type: 'value', stored: encodeValue(where, value) }
  }
  // A forgotten response is an error. It must not become an empty 200.
  if (answer === undefined)
    throw optionError(where, answer, 'use a response: { status: 201, body }')
  const known = checkNames(where, answer, ['status', 'headers', 'body'])
  const { status = 200, headers = {}, body } = known as GivenAnswer
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw optionError(`${where}.status`, status, 'use a status from 200 to 599')
  }
  const fields = Object.entries(headers).map(([name, value]): [string, string] => {
    return [name.toLowerCase(), String(value)]
  })
  const [bytes, type] = toBytes(where, body)
  if (type !== undefined && !fields.some(([name]) => name === 'content-type'))
    fields.push(['content-type', type])
  return { type: 'response', status, headers: replayableHeaders(fields), body: bytes }
}

/** The bytes of a body and their media type. */
function toBytes(where: string, body: unknown): [bytes: Uint8Array, type?: string] {
  if (body === undefined) return [new Uint8Array()]
  if (body instanceof Uint8Array) return [body, 'application/octet-stream']
  if (typeof body === 'string') return [Buffer.from(body), 'text/plain; charset=utf-8']
  try {
    const json: string | undefined = JSON.stringify(body)
    if (json !== undefined) return [Buffer.from(json), 'application/json; charset=utf-8']
  } catch {
    // JSON cannot represent the body, so the error below is thrown.
  }
  throw optionError(`${where}.body`, body, 'use text, bytes or a value that JSON can represent')
}

function shown(kept: Kept | undefined): Pick<IdempotencyRecord, 'response' | 'value'> {
  if (kept === undefined) return {}
  if (kept.type === 'value') return { value: decodeValue(kept.stored) }
  const { status, headers, body } = kept
  return { response: { status, headers, body } }
}
