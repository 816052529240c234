// The body of a request, which Hono keeps if a middleware has read it.

import type { IdempotentExchange } from '@stampede/core/adapter'
import type { Context } from 'hono'

type RequestBody = Awaited<ReturnType<IdempotentExchange['readBody']>>

/** Never rejects. `refuses`: the handler does not run for a body that is too large. */
export async function readBody(
  maxBytes: number,
  { req }: Context,
  refuses = false,
): Promise<RequestBody> {
  const kept = Object.keys(req.bodyCache)
  if (kept.length === 0) return readWebBody(req.raw, maxBytes, refuses)
  try {
    if (kept.includes('formData')) return await readForm(await req.formData())
    const body = await req.arrayBuffer()
    return await readWebBody(new Request(req.url, { method: 'POST', body }), maxBytes, false)
  } catch {
    return { type: 'incomplete' }
  }
}

/** Reads the body in such a way that the handler still gets it. Never rejects. */
async function readWebBody(
  request: Request,
  maxBytes: number,
  refuses: boolean,
): Promise<RequestBody> {
  if (request.bodyUsed) return { type: 'unseen' }
  if (Number(request.headers.get('content-length')) > maxBytes) return { type: 'too-large' }
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    const reader = request.clone().body?.getReader()
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true }
      if (done || value === undefined) break
      chunks.push(value)
      bytes += value.byteLength
      if (bytes <= maxBytes) continue
      if (!refuses) {
        reader?.cancel().catch(() => {})
        return { type: 'too-large' }
      }
      // Read to the end, so that the connection can be reused. Without the first line, the bytes
      // would be kept for the handler. Its promise waits for the other reader of this body.
      request.body?.cancel().catch(() => {})
      void discard(reader)
      return { type: 'too-large' }
    }
  } catch {
    return { type: 'incomplete' }
  }
  return bytes === 0 ? { type: 'none' } : { type: 'bytes', bytes: Buffer.concat(chunks) }
}

async function discard(reader: ReadableStreamDefaultReader<Uint8Array> | undefined): Promise<void> {
  try {
    while ((await reader?.read())?.done === false);
  } catch {
    // The client left.
  }
}

/** A form as a value that can be compared. Its bytes have a random boundary. */
async function readForm(form: FormData): Promise<RequestBody> {
  const fields = [...form].map(async ([name, value]) =>
    typeof value === 'string'
      ? [name, value]
      : [name, value.name, value.type, Buffer.from(await value.arrayBuffer()).toString('base64')],
  )
  return { type: 'parsed', value: await Promise.all(fields) }
}
