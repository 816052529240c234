// Writes a web Response to a ServerResponse.

import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'

/** The server of Hono sends it too, for a body without a type. */
const DEFAULT_TYPE = 'text/plain; charset=UTF-8'

type Reader = ReadableStreamDefaultReader<Uint8Array | string>
type Read = Awaited<ReturnType<Reader['read']>>

/**
 * Writes the head and the body. A body of one chunk that is there at once is written with end(), so
 * that a capture has the whole body when it judges the head. If the body breaks off, so does `res`.
 */
export async function writeWebResponse(response: Response, res: ServerResponse): Promise<void> {
  const { body } = response
  if (res.headersSent) {
    body?.cancel().catch(() => {})
    return
  }
  setHead(response, res)
  if (body === null) {
    res.end()
    return
  }
  const reader: Reader = body.getReader()
  const reads = [reader.read()]
  try {
    const first = await atOnce(reads[0])
    if (first?.done) {
      res.end('')
      return
    }
    const second = first && (await atOnce(reads[reads.push(reader.read()) - 1]))
    if (second?.done) {
      res.end(first?.value)
      return
    }
    if (first === undefined) res.flushHeaders()
  } catch {
    // The stream below gets the same error.
  }
  const source = readableOf(reader, reads)
  source.on('error', (error) => res.destroy(error))
  source.pipe(res)
  // A capture may have replaced `destroy`, for waiters that read the source.
  if (res.destroyed) source.destroy()
  else res.once('close', () => source.destroy())
}

function setHead({ status, headers, body }: Response, res: ServerResponse): void {
  res.statusCode = status
  for (const [name, value] of headers) res.setHeader(name, linesOf(headers, name, value))
  if (body !== null && !res.hasHeader('content-type')) res.setHeader('content-type', DEFAULT_TYPE)
}

/** A web Headers joins the lines of all fields except Set-Cookie with `, `. */
function linesOf(headers: Headers, name: string, value: string): string | string[] {
  if (name === 'set-cookie') return headers.getSetCookie()
  // The tags of this field are separated by spaces, so a comma would be a part of a tag.
  return name === 'surrogate-key' ? value.split(', ') : value
}

/** The result of the read, if it is there within this turn of the event loop. */
function atOnce(read: Promise<Read> | undefined): Promise<Read | undefined> {
  return Promise.race([read, new Promise<undefined>((resolve) => setImmediate(resolve, undefined))])
}

/** `reads` are the reads that have begun. */
function readableOf(reader: Reader, reads: Array<Promise<Read>>): Readable {
  return new Readable({
    read() {
      const reading = reads.shift() ?? reader.read()
      reading.then(
        ({ done, value }) => this.push(done ? null : value),
        (error) => this.destroy(error),
      )
    },
    destroy(error, done) {
      reader.cancel(error).catch(() => {})
      done(error)
    },
  })
}
