// Requests of a closed loop, as bytes.

/** `new`: a target that no earlier request had. */
export type RequestKind =
  | ('new' | 'same' | 'cookie' | 'private' | 'private-new')
  | ('order' | 'repeated-order' | 'query')

const ORDER = JSON.stringify({ item: 'kettle', count: 2, note: 'Please ring twice. '.repeat(12) })

/** Distinguishes the keys and targets of this run from those of earlier runs. */
const RUN = Date.now().toString(36)
let made = 0

/** Returns a function that makes the next request. A request that never changes is made once. */
export function requestsOf(kind: RequestKind): () => Buffer {
  const constant = (bytes: Buffer) => (): Buffer => bytes
  const next = () => `${RUN}-${made++}`
  switch (kind) {
    case 'new':
      return () => get(`/products/${next()}`)
    case 'private-new':
      return () => get(`/private/${next()}`)
    case 'same':
      return constant(get('/products/42'))
    case 'private':
      return constant(get('/private/42'))
    case 'cookie':
      return constant(get('/products/42', 'Cookie: session=1\r\n'))
    case 'order':
      return () => post(next())
    case 'repeated-order':
      return constant(post(RUN))
    case 'query':
      return constant(query('/products/42'))
  }
}

const SEARCH = JSON.stringify({ words: ['kettle', 'steel'], page: 3, note: 'x'.repeat(150) })

const query = (path: string): Buffer =>
  Buffer.from(
    `QUERY ${path} HTTP/1.1\r\nHost: bench\r\nAccept: application/json\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${SEARCH.length}\r\n\r\n${SEARCH}`,
  )

const get = (path: string, fields = ''): Buffer =>
  Buffer.from(`GET ${path} HTTP/1.1\r\nHost: bench\r\nAccept: application/json\r\n${fields}\r\n`)

const post = (key: string): Buffer =>
  Buffer.from(
    'POST /orders HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n' +
      `Idempotency-Key: "${key}"\r\nContent-Length: ${ORDER.length}\r\n\r\n${ORDER}`,
  )
