// Reads the body of a web Request in such a way that the handler still gets it.

import type { RequestBody } from '@stampede/core/adapter'

/** Reads the body of `request`. Never rejects. */
export async function readWebBody(request: Request, maxBytes: number): Promise<RequestBody> {
  if (request.bodyUsed) return { type: 'unseen' }
  if (Number(request.headers.get('content-length')) > maxBytes) return { type: 'too-large' }
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const chunk of request.clone().body ?? []) {
      chunks.push(chunk)
      bytes += chunk.byteLength
      if (bytes > maxBytes) return { type: 'too-large' }
    }
  } catch {
    return { type: 'incomplete' }
  }
  return bytes === 0 ? { type: 'none' } : { type: 'bytes', bytes: Buffer.concat(chunks) }
}

/** A form as a value that can be compared. Its bytes have a random boundary. */
export async function readForm(form: FormData): Promise<RequestBody> {
  const fields = [...form].map(async ([name, value]) =>
    typeof value === 'string'
      ? [name, value]
      : [name, value.name, value.type, Buffer.from(await value.arrayBuffer()).toString('base64')],
  )
  return { type: 'parsed', value: await Promise.all(fields) }
}
