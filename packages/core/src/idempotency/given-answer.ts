// Responses that come from `onLeaseExpired` or an operator instead of the handler.

import { optionError } from '../errors.ts'
import { checkNames } from '../options.ts'
import type { HeaderList } from '../ports/exchange.ts'
import type { GivenAnswer } from './idempotency-options.ts'
import type { Kept } from './kept-response.ts'
import { replayableHeaders } from './replayable.ts'

/** Checks such a response and converts it for storage. Throws `ERR_STAMPEDE_OPTION`. */
export function toKept(where: string, answer: GivenAnswer): Kept & { readonly type: 'response' } {
  // A callback without a return value is an error. It must not become an empty 200.
  if (answer === undefined)
    throw optionError(where, answer, 'use a response: { status: 201, body }')
  const known = checkNames(where, answer, ['status', 'headers', 'body'])
  const { status = 200, headers = {}, body } = known as GivenAnswer
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw optionError(`${where}.status`, status, 'use a status from 200 to 599')
  }
  const fields: HeaderList = Object.entries(headers).map(
    ([name, value]) => [name.toLowerCase(), String(value)] as const,
  )
  const { bytes, type } = toBytes(where, body)
  const typed = type !== undefined && !fields.some(([name]) => name === 'content-type')
  const all: HeaderList = typed ? [...fields, ['content-type', type]] : fields
  return { type: 'response', status, headers: replayableHeaders(all), body: bytes }
}

function toBytes(where: string, body: unknown): { bytes: Uint8Array; type?: string } {
  if (body === undefined) return { bytes: new Uint8Array() }
  if (body instanceof Uint8Array) return { bytes: body, type: 'application/octet-stream' }
  if (typeof body === 'string')
    return { bytes: Buffer.from(body), type: 'text/plain; charset=utf-8' }
  try {
    const json: string | undefined = JSON.stringify(body)
    if (json !== undefined)
      return { bytes: Buffer.from(json), type: 'application/json; charset=utf-8' }
  } catch {
    // JSON cannot represent the body, so the error below is thrown.
  }
  throw optionError(`${where}.body`, body, 'use text, bytes or a value that JSON can represent')
}
