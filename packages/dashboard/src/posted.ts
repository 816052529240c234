// POST: requests with a JSON body that only the page itself can send.

import type { IncomingMessage } from 'node:http'

/** A browser sends this field to another origin only if that origin allows it. Ours never does. */
const OWN_FIELD = 'x-stampede-dashboard'
const MOST_BYTES = 65_536

export interface Outcome {
  readonly status: number
  readonly body: unknown
}

export const failed = (status: number, message: string): Outcome => ({
  status,
  body: { error: message },
})

/** The status of an error: a wrong value, or a store that is unavailable. */
export function failure(error: unknown): Outcome {
  const { code, message } = error as { code?: string; message: string }
  return failed(/OPTION|VALUE/.test(`${code}`) ? 400 : 503, message)
}

/** Calls `act` with the body of a request of the page. `parsed`: as a middleware has read it. */
export async function posted(
  req: IncomingMessage,
  parsed: unknown,
  act: (body: Record<string, unknown>) => Promise<Outcome>,
): Promise<Outcome> {
  if (!isSameOrigin(req)) return failed(403, 'the request is not from the page of the dashboard')
  if (!/^application\/json\b/i.test(req.headers['content-type'] ?? '')) {
    return failed(415, 'the body has to be JSON')
  }
  const body = isObject(parsed) ? parsed : await readJson(req)
  if (body === undefined) return failed(400, 'the body is no JSON object, or is too long')
  return act(body).catch(failure)
}

/** Browsers send `Sec-Fetch-Site` and `Origin` with a POST. Other clients have no cookies. */
function isSameOrigin({ headers }: IncomingMessage): boolean {
  const { origin, host } = headers
  const site = headers['sec-fetch-site']
  if (headers[OWN_FIELD] !== '1' || (site !== undefined && site !== 'same-origin')) return false
  // A proxy may have changed Host. Then only Sec-Fetch-Site says where the page is from.
  if (origin === undefined || site === 'same-origin') return true
  return URL.canParse(origin) && new URL(origin).host === host
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

async function readJson(req: IncomingMessage): Promise<Record<string, unknown> | undefined> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const chunk of req) {
      bytes += chunk.length
      if (bytes > MOST_BYTES) return undefined
      chunks.push(chunk)
    }
    const value: unknown = JSON.parse(Buffer.concat(chunks).toString())
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
