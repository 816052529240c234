// An answer that is shown to others while it is still being made: how core is shown it, and what it hands on.

import type { CapturedHead, HeaderList } from './exchange.ts'

/** Where an adapter shows a body it captures, as it comes. */
export interface LiveSink {
  /** The head has left, and with nothing on it that is one client's: what follows may be shown. Once, before any chunk. */
  open(head: CapturedHead): void
  /** Somebody reads it now. */
  readonly watched: boolean
  /** A chunk that nobody will change. False: nobody reads, and beyond `maxBodyBytes` nobody will; no more need come. */
  write(chunk: Uint8Array): boolean
  /** Nothing follows. `whole`: the app ended it; otherwise those who read are cut off. */
  end(whole: boolean): void
}

/** An answer of which the body is still coming. */
export interface LiveReply {
  readonly status: number
  /** Without framing. */
  readonly headers: HeaderList
  /** The Content-Length, where it is known. */
  readonly length: number | undefined
  /** Throws when the body was cut off: then the client must see a broken transfer. `return` when the client left. */
  readonly body: LiveChunks
}

export interface LiveChunks {
  next(): Promise<IteratorResult<Uint8Array, undefined>>
  return(): unknown
}
