// The requests of each path, as bytes.

export type RequestKind =
  /** A target that no request had before. */
  'new' | 'same' | 'cookie' | 'private' | 'private-new' | 'order' | 'repeated-order'

const ORDER = JSON.stringify({ item: 'kettle', count: 2, note: 'Please ring twice. '.repeat(12) })

/** Tells this run's keys and targets from those of earlier ones. */
const RUN = Date.now().toString(36)
let made = 0

/** Returns what makes the next request. One that is always the same is made once. */
export function requestsOf(kind: RequestKind): () => Buffer {
  switch (kind) {
    case 'new':
      return () => get(`/products/${RUN}-${made++}`)
    case 'private-new':
      return () => get(`/private/${RUN}-${made++}`)
    case 'same':
      return constant(get('/products/42'))
    case 'private':
      return constant(get('/private/42'))
    case 'cookie':
      return constant(get('/products/42', 'Cookie: session=1\r\n'))
    case 'order':
      return () => post(`${RUN}-${made++}`)
    case 'repeated-order':
      return constant(post(RUN))
  }
}

const constant = (bytes: Buffer) => (): Buffer => bytes

const get = (path: string, fields = ''): Buffer =>
  Buffer.from(`GET ${path} HTTP/1.1\r\nHost: bench\r\nAccept: application/json\r\n${fields}\r\n`)

const post = (key: string): Buffer =>
  Buffer.from(
    'POST /orders HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n' +
      `Idempotency-Key: "${key}"\r\nContent-Length: ${ORDER.length}\r\n\r\n${ORDER}`,
  )
