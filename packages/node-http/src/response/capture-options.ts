// The observer and the options of a capture, and how the end of its response is held.

import type { ServerResponse } from 'node:http'
import type { OriginEnd, OriginObserver, Reply } from '@stampede/core/adapter'
import type { OuterFields } from './fields.ts'

export interface CaptureObserver extends OriginObserver {
  /**
   * How long the handler may still take after its client left, in ms. Default: see client-gone.ts.
   */
  readonly graceMs?: number
  /** Whether head and body are held, too. */
  readonly holdsAll?: boolean
}

export interface CaptureOptions {
  /** The framework's own objects for the response, which core gets. */
  readonly natives?: Parameters<OriginObserver['onHead']>[2]
  /** The response to the client, if outer layers make it from the captured one. */
  readonly sentAs?: ServerResponse | undefined
  /** Fields that were set before the handler runs. Default: those that are set now. */
  readonly outer?: OuterFields
  /** Called before core gets the head. */
  readonly beforeHead?: (() => void) | undefined
  /** Called in place of the function of the observer. */
  readonly ended?: OriginObserver['ended'] | undefined
  /** Holds the end of the response. Default: the end is sent at once. */
  readonly hold?: EndHold
}

/** A call of the app that writes a part of the response. */
export type Call = readonly [method: 'writeHead' | 'write' | 'end' | 'flushHeaders', args: Args]
export type Args = readonly unknown[]
/** Makes the calls that were held, or sends a reply in place of the response. */
export type Send = (calls: readonly Call[], reply: Reply | undefined) => void

/** Holds the end of one response, or all of it. */
export interface EndHold {
  /** Whether the app has ended the response and the end was not sent yet. */
  readonly active: boolean
  /** Whether calls that write the response are kept. */
  readonly keeps: boolean
  /** Whether the body has become too large, and the app still writes it. */
  readonly isFull: boolean
  /** The bytes of the last call that was kept, if these are not those of a string. */
  readonly ownChunk: Uint8Array | undefined
  /** Set once the end was reported. Nothing after it counts. */
  readonly reported: object | undefined
  /** Makes a kept head look unsent again. Undefined: no head is kept. */
  readonly unsend: (() => void) | undefined
  /** Keeps a call. From then on, the head looks sent. */
  keep(method: Call[0], args: Args): unknown
  /** The body is too large to be kept. Its end, or a reply in its place, need not wait for it. */
  overflow(send: Send): void
  /**
   * Whether this call may be held. False if Node would reject the arguments, because the error must
   * be thrown now, while the handler can catch it.
   */
  takes(args: Args, head: Args, method?: string): boolean
  /**
   * Sends the end with `send`. The end of a complete response is held until core has the outcome.
   * Without `args`, the app has not ended the response yet.
   */
  end(end: OriginEnd, args: Args | undefined, send: Send): void
  /** Whether this call of destroy() on the response was delayed. `now` calls it. */
  delays(args: Args, now: () => unknown): boolean
}
