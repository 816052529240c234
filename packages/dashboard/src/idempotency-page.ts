// api/idempotency: records of idempotency keys page by page, or that of one key. api/settle.

import type { IncomingMessage } from 'node:http'
import type { Stampede } from '@stampede/core'
import { failed, type Outcome } from './posted.ts'

type IdempotencyOperator = Stampede['idempotency']
type KeyRef = Parameters<IdempotencyOperator['inspect']>[0]
type KeyRecord = NonNullable<Awaited<ReturnType<IdempotencyOperator['inspect']>>>
type Given = Parameters<IdempotencyOperator['resolve']>[1]

/** One page of the records in the store, whose names are hashes. */
export type RecordsView = Awaited<ReturnType<IdempotencyOperator['list']>>

/** The record of one key. Neither the response nor the result of a job, which may be private. */
export interface KeyRecordView extends Omit<KeyRecord, 'fence' | 'response' | 'value'> {
  readonly fence: string
  /** Status of the stored response, and its size. Without a size, the body was not stored. */
  readonly response: { readonly status: number; readonly bodyBytes: number | undefined } | undefined
}

export interface OneKeyView {
  /** Undefined: the store has no record of the key. */
  readonly record: KeyRecordView | undefined
}

/**
 * The field with the key that is asked for, as base64url of JSON. Logs often have URLs, and an
 * idempotency key is a secret of its client.
 */
const KEY_FIELD = 'x-stampede-key'

export async function idempotencyView(
  operator: IdempotencyOperator,
  { headers }: IncomingMessage,
  cursor: string,
): Promise<RecordsView | OneKeyView> {
  const asked = headers[KEY_FIELD]
  if (asked === undefined) return operator.list(cursor)
  const found = await operator.inspect(refIn(asked as string))
  return { record: found && viewOf(found) }
}

/** The operator checks the key itself, and refuses an empty one. */
function refIn(field: string): KeyRef {
  try {
    return JSON.parse(Buffer.from(field, 'base64url').toString())
  } catch {
    return ''
  }
}

function viewOf({ fence, response, value: _value, ...known }: KeyRecord): KeyRecordView {
  return {
    ...known,
    fence: String(fence),
    response: response && { status: response.status, bodyBytes: response.body?.byteLength },
  }
}

/**
 * Settles a key by an answer for repeats, or by `release`. If its state or attempt is no longer the
 * one in `seen`, nothing changes, and the error is the reply of the operator, who checks all parts.
 */
export async function settleByBody(
  operator: IdempotencyOperator,
  body: Record<string, unknown>,
): Promise<Outcome> {
  const { key, seen, answer } = body as { key: KeyRef; seen: KeyRecord; answer: Given | 'release' }
  const options = { force: { ...seen } }
  const reply =
    answer === 'release'
      ? await operator.release(key, options)
      : await operator.resolve(key, answer, options)
  return reply === 'settled' ? { status: 200, body: {} } : failed(409, reply)
}
