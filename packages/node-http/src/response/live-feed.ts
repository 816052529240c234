// Leader's side of a shared stream: passes its body to core chunk by chunk, after its head was
// sent.

import type { CapturedHead, LiveSink, OriginEnd } from '@stampede/core/adapter'
import { hasBody } from './write-response.ts'

export class LiveFeed {
  #sink: LiveSink | undefined
  /**
   * Chunks written before the head was sent. The capture holds the same buffers, so its limit
   * holds.
   */
  #before: Uint8Array[] | undefined = []
  #opening: NodeJS.Immediate | undefined

  constructor(sink: LiveSink | undefined) {
    this.#sink = sink
  }

  /** Core wants more chunks. */
  get active(): boolean {
    return this.#sink !== undefined
  }

  /** Other clients read the body now, even if the leader's client leaves. */
  get watched(): boolean {
    return this.#before === undefined && this.#sink?.hasReaders === true
  }

  /**
   * The head was sent, and has nothing for one client only. A body that ends in the same turn is no
   * stream: waiters get it when it is stored.
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
   * Ends the feed if the head was not sent yet: chunks above the limit cannot be held until then.
   */
  tooLarge(): void {
    if (this.#before !== undefined) this.#shut()
  }

  /**
   * The outcome of the capture is known. Readers still get the rest of a body that is too large.
   */
  settle(end: OriginEnd): void {
    const goesOn = end.type === 'not-captured' && end.reason === 'too-large'
    if (!goesOn) this.end(end.type === 'complete')
  }

  end(whole: boolean): void {
    const sink = this.#sink
    const isShown = this.#before === undefined
    this.#shut()
    if (isShown) sink?.end(whole)
  }

  #shut(): void {
    clearImmediate(this.#opening)
    this.#sink = undefined
    this.#before = []
  }
}
