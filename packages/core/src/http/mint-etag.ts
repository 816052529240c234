// An entity tag for a stored response that came without a validator, so that clients can revalidate
// it. It is weak, because a layer outside the cache (a compressor) may change the bytes and keep
// the tag.

import { createHash } from 'node:crypto'
import type { CapturedHead } from '../ports/exchange.ts'
import { headerValue } from './headers.ts'

/**
 * RFC 9110 §8.8.3: made from the bytes where they are known already (`whole`), so that a refresh without a change keeps it;
 * else from the fence, which is of this one response. https://www.rfc-editor.org/rfc/rfc9110.html#section-8.8.3
 */
export function mintEtag(
  { status, headers }: CapturedHead,
  whole: Uint8Array | undefined,
  fence: string,
): string | undefined {
  if (status !== 200) return undefined
  if (headerValue(headers, 'etag') !== undefined) return undefined
  if (headerValue(headers, 'last-modified') !== undefined) return undefined
  return whole === undefined ? `W/"s-${digest(fence)}"` : `W/"${digest(whole)}"`
}

/** 132 bits: no two of them are ever alike by chance. */
function digest(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64url').slice(0, 22)
}
