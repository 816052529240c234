// A body with several readers while the handler still writes it. It is a linked list of chunks. The
// body references the first chunk, and each reader its next chunk. Once the body is too large to
// store, it drops its reference. Chunks that all readers have read are then freed.

import type { HeldEntry, StoredResponse } from '../entry/entry.ts'
import { responseError } from '../errors.ts'
import type { LiveChunks } from '../ports/exchange.ts'

/** A response that is still being written. `held` has all of the response except its body. */
export interface Live {
  readonly held: HeldEntry & { readonly entry: StoredResponse }
  readonly body: LiveBody
}

interface Link {
  /** Undefined in the last link, whose chunk was not written yet. */
  chunk: Uint8Array | undefined
  next: Link | undefined
}

export class LiveBody {
  readonly #maxBytes: number
  /** The Content-Length. A body with another length is cut off. */
  readonly length: number | undefined
  readonly #readers = new Set<LiveReader>()
  /** Undefined once the body is too large to store. Then no reader can begin any more. */
  #first: Link | undefined
  #last: Link
  #bytes = 0
  #state: 'open' | 'ended' | 'cut' = 'open'

  constructor(maxBytes: number, length?: number) {
    this.#maxBytes = maxBytes
    this.length = length
    this.#last = { chunk: undefined, next: undefined }
    this.#first = this.#last
  }

  get state(): 'open' | 'ended' | 'cut' {
    return this.#state
  }

  get hasReaders(): boolean {
    return this.#readers.size > 0
  }

  /** Whether a reader may begin. False after the end, because the entry is about to be stored. */
  get isJoinable(): boolean {
    return this.#state === 'open' && this.#first !== undefined && this.#bytes > 0
  }

  /** Adds a reader. Undefined if the start of the body was dropped or the body was cut off. */
  attach(): LiveReader | undefined {
    if (this.#first === undefined || this.#state === 'cut') return undefined
    const reader = new LiveReader(this, this.#first)
    this.#readers.add(reader)
    return reader
  }

  detach(reader: LiveReader): void {
    this.#readers.delete(reader)
  }

  /** Adds a chunk. False if the body has no reader and no reader can begin. */
  write(chunk: Uint8Array): boolean {
    if (this.#state !== 'open') return false
    if (chunk.byteLength > 0) this.#append(chunk)
    return this.#first !== undefined || this.#readers.size > 0
  }

  #append(chunk: Uint8Array): void {
    this.#bytes += chunk.byteLength
    // A byte beyond Content-Length would be read as the next response on a keep-alive connection.
    if (this.length !== undefined && this.#bytes > this.length) {
      this.end(false)
      return
    }
    const next = { chunk: undefined, next: undefined }
    Object.assign(this.#last, { chunk, next })
    this.#last = next
    if (this.#bytes > this.#maxBytes) this.#first = undefined
    for (const reader of this.#readers) {
      const isFarBehind = this.#first === undefined && this.#bytes - reader.read > this.#maxBytes
      if (isFarBehind && !reader.isWaiting) reader.cut()
      else reader.wake()
    }
  }

  end(whole: boolean): void {
    if (this.#state !== 'open') return
    const isWhole = whole && (this.length === undefined || this.length === this.#bytes)
    this.#state = isWhole ? 'ended' : 'cut'
    this.#first = undefined
    for (const reader of this.#readers) {
      if (isWhole) reader.wake()
      else reader.cut()
    }
    this.#readers.clear()
  }
}

/** One reader with its position in the body. */
export class LiveReader implements LiveChunks {
  /** Number of bytes read so far. */
  read = 0
  readonly #body: LiveBody
  #at: Link | undefined
  #isCut = false
  #waiting: (() => void) | undefined

  constructor(body: LiveBody, first: Link) {
    this.#body = body
    this.#at = first
  }

  /**
   * Whether the body was cut off. A caller whose client has no byte yet can still get another
   * response.
   */
  get isCut(): boolean {
    return this.#isCut
  }

  /** Whether the reader has read all chunks so far and waits for the next one. */
  get isWaiting(): boolean {
    return this.#waiting !== undefined
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    for (;;) {
      if (this.#isCut) throw responseError('the shared response ended before it was complete')
      const at = this.#at
      if (at?.chunk !== undefined) {
        this.#at = at.next
        this.read += at.chunk.byteLength
        return { done: false, value: at.chunk }
      }
      if (at === undefined || this.#body.state === 'ended') return this.return()
      await new Promise<void>((resolve) => {
        this.#waiting = resolve
      })
    }
  }

  return(): IteratorResult<Uint8Array, undefined> {
    this.#at = undefined
    this.#body.detach(this)
    this.wake()
    return { done: true, value: undefined }
  }

  wake(): void {
    this.#waiting?.()
    this.#waiting = undefined
  }

  /** Ends the reader with an error, so that its client does not take the response for complete. */
  cut(): void {
    this.#isCut = true
    this.#at = undefined
    this.#body.detach(this)
    this.wake()
  }
}
