// Differences between the compatibility objects of node:http2 and those of node:http.

import type { ServerResponse } from 'node:http'

export function isHttp2(res: ServerResponse): boolean {
  return 'stream' in res
}

/**
 * Resets the reason phrase to that of the status. HTTP/2 has none, and Node warns if one is set.
 */
export function clearReason(res: ServerResponse): void {
  if (!isHttp2(res)) res.statusMessage = ''
}
