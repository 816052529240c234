// Sends requests to the shop, and returns the parts of a response that the lab shows.

/**
 * @typedef {object} Reply
 * @property {number} status
 * @property {any} body
 * @property {string | null} cacheStatus
 * @property {string | null} age
 * @property {number} tookMs
 */

/** Throws with the shop's error text on a status of 400 or more. @returns {Promise<Reply>} */
export async function ask(path, options) {
  const reply = await send(path, options)
  if (reply.status < 400) return reply
  throw new Error(reply.body?.detail ?? `The shop responded with ${reply.status}.`)
}

/** Returns a response of any status. Throws if there is none. @returns {Promise<Reply>} */
export async function send(path, { method = 'GET', body, headers: extra = {} } = {}) {
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  const headers = { ...type, ...extra }
  const askedAt = performance.now()
  // Without this, the browser's own cache would respond.
  const options = { method, headers, cache: 'no-store', body: JSON.stringify(body) }
  const response = await fetch(path, options).catch(() => {
    throw new Error('The shop does not respond. Is it still running?')
  })
  const text = await response.text()
  const tookMs = performance.now() - askedAt
  return {
    status: response.status,
    body: text === '' ? undefined : JSON.parse(text),
    cacheStatus: response.headers.get('cache-status'),
    age: response.headers.get('age'),
    tookMs,
  }
}

/**
 * Returns the kind of a Cache-Status in one word, and its ttl in seconds (negative: stale).
 * @param {string | null} cacheStatus
 */
export function readCacheStatus(cacheStatus) {
  const parts = (cacheStatus ?? '').split(';').map((part) => part.trim())
  const ttlText = parts.find((part) => part.startsWith('ttl='))?.slice(4)
  const ttlS = ttlText === undefined ? undefined : Number(ttlText)
  if (parts.includes('hit')) return { kind: ttlS !== undefined && ttlS < 0 ? 'stale' : 'hit', ttlS }
  if (parts.includes('collapsed')) return { kind: 'shared', ttlS }
  if (parts.includes('fwd=bypass')) return { kind: 'bypass', ttlS }
  return { kind: parts.some((part) => part.startsWith('fwd=')) ? 'miss' : 'none', ttlS }
}
