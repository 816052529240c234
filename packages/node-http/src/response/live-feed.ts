// The leader's side of a shared stream: its body is shown to core as it comes, from the moment when its head has left.

import type { CapturedHead, LiveSink, OriginEnd } from '@stampede/core/adapter'
import { hasBody } from './write-response.ts'

export class LiveFeed {
  #sink: LiveSink | undefined
  /** What came before the head had left; the same buffers as are captured, so within the same bound. */
  #before: Uint8Array[] | undefined = []
  #opening: NodeJS.Immediate | undefined

  constructor(sink: LiveSink | undefined) {
    this.#sink = sink
  }

  /** Chunks are wanted. */
  get active(): boolean {
    return this.#sink !== undefined
  }

  /** Others read it now, whatever becomes of this client. */
  get watched(): boolean {
    return this.#before === undefined && this.#sink?.watched === true
  }

  /**
   * The head has left, and nothing on it is one client's. What ends in the same turn was no stream: it is shared as ever,
   * whole and when it is stored.
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

  /** A copy that nobody will change. */
  add(chunk: Uint8Array): void {
    if (this.#sink === undefined || chunk.byteLength === 0) return
    if (this.#before !== undefined) this.#before.push(chunk)
    else if (!this.#sink.write(chunk)) this.#shut()
  }

  /** Before its head has left, a body that is not kept has no place to be. */
  tooLarge(): void {
    if (this.#before !== undefined) this.#shut()
  }

  /** The outcome of the capture is known. A body that is too large to be kept goes on for those who read it. */
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
