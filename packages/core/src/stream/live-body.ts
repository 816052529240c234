// A body that several read while it comes, each at a pace of its own. A linked list of chunks: the body holds the first
// for those who come later, each reader the one it is at, so that what everybody has read is let go by itself.

import type { HeldEntry, StoredResponse } from '../entry/entry.ts'
import { responseError } from '../errors.ts'
import type { LiveChunks } from '../ports/exchange.ts'

/** An answer on its way: `held` has everything but the body. */
export interface Live {
  readonly held: HeldEntry & { readonly entry: StoredResponse }
  readonly body: LiveBody
}

interface Link {
  /** Undefined in the last one: it has not come yet. */
  chunk: Uint8Array | undefined
  next: Link | undefined
}

export class LiveBody {
  readonly #maxBytes: number
  /** As declared; a body of another length is a broken one. */
  readonly length: number | undefined
  readonly #readers = new Set<LiveReader>()
  /** Gone when the body has become too large to be kept: nobody can begin any more. */
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

  get watched(): boolean {
    return this.#readers.size > 0
  }

  /** It has begun, and is there from its start. What has ended is about to be stored. */
  get joinable(): boolean {
    return this.#state === 'open' && this.#first !== undefined && this.#bytes > 0
  }

  /** Undefined when it is not there from its start any more. */
  attach(): LiveReader | undefined {
    if (this.#first === undefined || this.#state === 'cut') return undefined
    const reader = new LiveReader(this, this.#first)
    this.#readers.add(reader)
    return reader
  }

  detach(reader: LiveReader): void {
    this.#readers.delete(reader)
  }

  /** False when nobody reads it, and nobody can begin to. */
  write(chunk: Uint8Array): boolean {
    if (this.#state !== 'open') return false
    if (chunk.byteLength > 0) this.#append(chunk)
    return this.#first !== undefined || this.#readers.size > 0
  }

  #append(chunk: Uint8Array): void {
    this.#bytes += chunk.byteLength
    // Not a byte beyond what was declared: on a kept connection it would begin another answer.
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

/** One reader's place in it. */
export class LiveReader implements LiveChunks {
  /** Bytes taken so far. */
  read = 0
  readonly #body: LiveBody
  #at: Link | undefined
  #isCut = false
  #waiting: (() => void) | undefined

  constructor(body: LiveBody, first: Link) {
    this.#body = body
    this.#at = first
  }

  /** Before its first byte it can still be sent elsewhere. */
  get isCut(): boolean {
    return this.#isCut
  }

  /** It has everything that came so far, and waits for more. */
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

  /** Too far behind, or there is no more to come: it must not look like the end. */
  cut(): void {
    this.#isCut = true
    this.#at = undefined
    this.#body.detach(this)
    this.wake()
  }
}
