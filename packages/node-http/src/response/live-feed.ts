// The leader's side of `collapse: 'stream'`. Once the head of the leader's response was sent, core
// gets the body chunk by chunk.

import type { CapturedHead, LiveSink, OriginEnd } from '@stampede/core/adapter'
import { hasBody } from './write-response.ts'

/** Passes the chunks of a response to other requests while they are written. */
export class LiveFeed {
  #sink: LiveSink | undefined
  /**
   * Chunks written before the head was sent. The capture holds the same buffers, so the limit of
   * the capture bounds them.
   */
  #before: Uint8Array[] | undefined = []
  #opening: NodeJS.Immediate | undefined

  constructor(sink: LiveSink | undefined) {
    this.#sink = sink
  }

  /** Whether core still takes chunks. */
  get active(): boolean {
    return this.#sink !== undefined
  }

  /** Whether other clients read the body now. They go on even if the leader's client leaves. */
  get watched(): boolean {
    return this.#before === undefined && this.#sink?.hasReaders === true
  }

  /**
   * Call this when the head was sent and has no field for a single client, such as Set-Cookie. If
   * the body ends in the same turn of the event loop, core gets no chunks, and waiters get the
   * stored response.
   */
  open(head: CapturedHead): void {
    if (!hasBody(head.status, undefined)) this.#shut()
    if (this.#sink === undefined) return
    this.#opening = setImmediate(() => {
      const before = this.#before ?? []
      this.#before = undefined
      this.#sink?.open(head)
      for (const chunk of before) this.add(chunk)
    })
  }

  /** `chunk` must be a copy that no other code changes. */
  add(chunk: Uint8Array): void {
    if (this.#sink === undefined || chunk.byteLength === 0) return
    if (this.#before !== undefined) this.#before.push(chunk)
    else if (!this.#sink.write(chunk)) this.#shut()
  }

  /**
   * Called when the body exceeds the limit. Ends the feed if the head was not sent yet, because
   * chunks above the limit are not buffered.
   */
  tooLarge(): void {
    if (this.#before !== undefined) this.#shut()
  }

  /**
   * Called when the outcome of the capture is known. Readers still get the rest of a body that is
   * too large to store.
   */
  settle(end: OriginEnd): void {
    const goesOn = end.type === 'not-captured' && end.reason === 'too-large'
    if (!goesOn) this.end(end.type === 'complete')
  }

  end(whole: boolean): void {
    const sink = this.#sink
    const isOpen = this.#before === undefined
    this.#shut()
    if (isOpen) sink?.end(whole)
  }

  #shut(): void {
    clearImmediate(this.#opening)
    this.#sink = undefined
    this.#before = []
  }
}
