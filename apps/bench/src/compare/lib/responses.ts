// Reads status and Content-Length of the responses on a connection, as cheaply as possible.
import type { Socket } from 'node:net'

/** Called at the end of each response, before the next request is sent on its connection. */
export type OnResponse = (isOk: boolean, bodyBytes: number) => void

const HEAD_END = Buffer.from('\r\n\r\n')

export function readResponses(socket: Socket, onResponse: OnResponse): void {
  /** Bytes of the body that have not arrived yet. -1: the head is not complete. */
  let missing = -1
  let head: Buffer | undefined
  let isOk = false
  let bodyBytes = 0
  socket.on('data', (chunk) => {
    let bytes = chunk.length
    if (missing < 0) {
      const data = head === undefined ? chunk : Buffer.concat([head, chunk])
      const end = data.indexOf(HEAD_END)
      head = end < 0 ? data : undefined
      if (end < 0) return
      const text = data.toString('latin1', 0, end)
      isOk = text.startsWith('HTTP/1.1 200 ') || text.startsWith('HTTP/1.1 201 ')
      bodyBytes = contentLength(text)
      missing = bodyBytes
      bytes = data.length - end - HEAD_END.length
    }
    missing -= bytes
    if (missing > 0) return
    missing = -1
    onResponse(isOk, bodyBytes)
  })
}

function contentLength(head: string): number {
  const [, digits] = /\ncontent-length: *(\d+)/i.exec(head) ?? []
  if (digits === undefined) throw new Error(`no Content-Length in: ${head}`)
  return Number(digits)
}

export const getRequest = (path: string): Buffer =>
  Buffer.from(`GET ${path} HTTP/1.1\r\nHost: bench\r\nAccept: application/json\r\n\r\n`)

/** Returns a function that makes the next request. It writes new bytes only if the path changes. */
export function requestsFor(path: () => string): () => Buffer {
  let last = ''
  let bytes: Buffer = Buffer.alloc(0)
  return () => {
    const next = path()
    if (next !== last) bytes = getRequest(next)
    last = next
    return bytes
  }
}
