// The body of a request, which Hono keeps if a middleware has read it.

import type { RequestBody } from '@stampede/core/adapter'
import { readWebBody } from '@stampede/node-http/adapter'
import type { HonoRequest } from 'hono'

/** Never rejects. */
export async function readBody(req: HonoRequest, maxBytes: number): Promise<RequestBody> {
  const kept = Object.keys(req.bodyCache)
  if (kept.length === 0) return readWebBody(req.raw, maxBytes)
  try {
    if (kept.includes('formData')) return await readWebBody(await req.formData(), maxBytes)
    const body = await req.arrayBuffer()
    return await readWebBody(new Request(req.url, { method: 'POST', body }), maxBytes)
  } catch {
    return { type: 'incomplete' }
  }
}
