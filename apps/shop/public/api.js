// Talks to the shop, and keeps of each answer what the lab wants to show.

/**
 * @typedef {object} Reply
 * @property {number} status
 * @property {any} body
 * @property {string | null} cacheStatus
 * @property {string | null} age
 * @property {number} tookMs
 */

/** Throws with the problem's own words when the shop refuses. @returns {Promise<Reply>} */
export async function ask(path, options) {
  const reply = await look(path, options)
  if (reply.status < 400) return reply
  throw new Error(reply.body?.detail ?? `The shop answered ${reply.status}.`)
}

/** The answer, whatever it is; throws only when there is none. @returns {Promise<Reply>} */
export async function look(path, { method = 'GET', body, headers: extra = {} } = {}) {
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  const headers = { ...type, ...extra }
  const askedAt = performance.now()
  // The browser has a cache of its own, which would answer in place of the one on show.
  const options = { method, headers, cache: 'no-store', body: JSON.stringify(body) }
  const response = await fetch(path, options).catch(() => {
    throw new Error('The shop does not answer. Is it still running?')
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
 * What a Cache-Status says, in one word, and for how many seconds it is still fresh (negative: stale).
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
