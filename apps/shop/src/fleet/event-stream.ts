// Server-sent events for the open pages of the lab.

import type { IncomingMessage, ServerResponse } from 'node:http'

export interface EventStream {
  /** Adds a page. It gets the last event of each name in `kept`, and then all events. */
  open(message: IncomingMessage, response: ServerResponse): void
  send(name: string, data: unknown): void
  /** Ends all streams, so that the server can close. */
  close(): void
}

/** A slow page loses events beyond this number of bytes, so that it cannot fill our memory. */
const MAX_UNSENT_BYTES = 1024 * 1024

export function createEventStream(kept: string): EventStream {
  const pages = new Set<ServerResponse>()
  let last = ''
  return {
    open(message, response) {
      response.writeHead(200, {
        'content-type': 'text/event-stream',
        'cache-control': 'no-store',
      })
      // A page that has lost the stream connects again after half a second.
      response.write(`retry: 500\n\n${last}`)
      pages.add(response)
      message.once('close', () => pages.delete(response))
    },
    send(name, data) {
      const text = `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
      if (name === kept) last = text
      for (const page of pages) if (page.writableLength < MAX_UNSENT_BYTES) page.write(text)
    },
    close() {
      for (const page of pages) page.end()
    },
  }
}
