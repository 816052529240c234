// How much time has passed, at the least: the monotonic clock stands still while a machine is suspended,
// the wall clock jumps when it is set. Whichever says more is believed: that ends a lease too early at worst.

import type { Clock } from '@stampede/core'

export interface Instant {
  readonly monotonic: number
  readonly wall: number
}

export function now(clock: Clock): Instant {
  return { monotonic: clock.now(), wall: clock.wallNow() }
}

export function elapsedMs(clock: Clock, since: Instant): number {
  return Math.max(clock.now() - since.monotonic, clock.wallNow() - since.wall)
}
