// The observer and the options of a capture.

import type { ServerResponse } from 'node:http'
import type { OriginObserver } from '@stampede/core/adapter'
import type { OuterFields } from './fields.ts'
import type { EndObserver } from './hold-end.ts'

export interface CaptureObserver extends OriginObserver, EndObserver {
  /**
   * How long the handler may still take after its client left, in ms. Default: see client-gone.ts.
   */
  readonly graceMs?: number
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
}
