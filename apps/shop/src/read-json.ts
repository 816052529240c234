// Reads the small JSON objects that routes accept.

import type { IncomingMessage } from 'node:http'
import { Problem } from './response.ts'

const MAX_BYTES = 16 * 1024

/**
 * Returns the body as an object. Throws a `Problem`: 415 not JSON, 413 too large, 400 not an
 * object.
 */
export async function readJson(message: IncomingMessage): Promise<Record<string, unknown>> {
  const type = message.headers['content-type']?.split(';')[0]?.trim().toLowerCase()
  // This also protects against other sites: their pages can send text/plain without permission, but
  // not application/json.
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
  // The stream must not be destroyed when the loop ends early, because the response uses its
  // connection.
  for await (const chunk of message.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length
    if (bytes > MAX_BYTES) {
      throw new Problem(413, 'Body too large', `The body may have at most ${MAX_BYTES} bytes.`)
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/**
 * Returns a whole number in range, or undefined if the field is missing. Throws a 400 `Problem`.
 */
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

/** Rejects unknown fields, so that a mistyped name does not look like success. */
export function refuseUnknownFields(body: Record<string, unknown>, known: readonly string[]): void {
  const unknown = Object.keys(body).find((name) => !known.includes(name))
  if (unknown === undefined) return
  const detail = `There is no field ${JSON.stringify(unknown.slice(0, 40))}; known fields: ${known.join(', ')}.`
  throw new Problem(400, 'Unknown field', detail)
}
