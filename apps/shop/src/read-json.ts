// Reads the small JSON objects that the shop accepts. Called by the writing routes.

import type { IncomingMessage } from 'node:http'
import { Problem } from './answer.ts'

const MAX_BYTES = 16 * 1024

/** The body as an object. Throws a `Problem`: 415 not JSON, 413 too large, 400 not an object. */
export async function readJson(message: IncomingMessage): Promise<Record<string, unknown>> {
  const type = message.headers['content-type']?.split(';')[0]?.trim().toLowerCase()
  // Also a guard: another site's page can send text/plain here unasked, but not application/json.
  if (type !== 'application/json') {
    throw new Problem(415, 'Unsupported media type', 'Send the body as application/json.')
  }
  const text = await readText(message)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Problem(400, 'Malformed JSON', 'The body is not valid JSON.')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Problem(400, 'Not an object', 'The body must be a JSON object.')
  }
  return value as Record<string, unknown>
}

async function readText(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  // Leaving the loop early must leave the message alone: the refusal still goes out on its connection.
  for await (const chunk of message.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length
    if (bytes > MAX_BYTES) {
      throw new Problem(413, 'Body too large', `The body may have at most ${MAX_BYTES} bytes.`)
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** A whole number in range, or undefined when the field was left out. Throws a 400 `Problem`. */
export function readWholeNumber(
  body: Record<string, unknown>,
  name: string,
  min: number,
  max: number,
): number | undefined {
  const value = body[name]
  if (value === undefined) return undefined
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) {
    return value
  }
  const detail = `${name} must be a whole number from ${min} to ${max}.`
  throw new Problem(400, 'Bad value', detail)
}

/** Refuses fields that would be ignored, because a mistyped name should not look like success. */
export function refuseUnknownFields(body: Record<string, unknown>, known: readonly string[]): void {
  const unknown = Object.keys(body).find((name) => !known.includes(name))
  if (unknown === undefined) return
  const detail = `There is no field ${JSON.stringify(unknown.slice(0, 40))}; known fields: ${known.join(', ')}.`
  throw new Problem(400, 'Unknown field', detail)
}
