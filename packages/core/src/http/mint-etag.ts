// A generated ETag for a stored response without a validator, so that clients can revalidate it. It
// is weak, because a middleware before the cache may compress the body and keep the ETag.

import { createHash } from 'node:crypto'
import type { CapturedHead } from '../ports/exchange.ts'
import { headerValue } from './headers.ts'

/**
 * RFC 9110 §8.8.3: a digest of the body, if all of it is known already (`whole`). Then the ETag
 * does not change if a refresh returns the same body. Otherwise a digest of the fence, which is
 * unique. https://www.rfc-editor.org/rfc/rfc9110.html#section-8.8.3
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

/** 132 bits of SHA-256, so that two different inputs do not get the same digest by chance. */
function digest(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64url').slice(0, 22)
}
