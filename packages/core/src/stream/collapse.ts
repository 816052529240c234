// `collapse: 'stream'`: the waiters of a flight get the leader's response while the handler writes
// it. The response must be storable, and must not have been purged meanwhile. Each waiter gets the
// response from its first byte.

import { heldEntry, type StoredResponse } from '../entry/entry.ts'
import type { Flight } from '../flight/flight.ts'
import type { Caller, Lead, Resolution } from '../flight/resolution.ts'
import type { Runtime } from '../flight/runtime.ts'
import { headerValue } from '../http/headers.ts'
import { isConfirmed } from '../l1/validity.ts'
import type { CapturedHead, LiveSink } from '../ports/exchange.ts'
import type { Live } from './live-body.ts'
import { LiveBody } from './live-body.ts'

/** A response whose handler sent the head at `bornAt` and still writes the body. */
interface LiveHead {
  readonly entry: StoredResponse
  readonly freshMs: number
  readonly bornAt: number
}

/** The receiver of a run's body. `headOf` returns undefined if the response is not storable. */
export function liveSink(
  lead: Lead,
  maxBytes: number,
  headOf: (head: CapturedHead) => LiveHead | undefined,
): LiveSink | undefined {
  const { publish } = lead
  if (publish === undefined) return undefined
  let live: Live | undefined
  let published = false
  return {
    get hasReaders() {
      return live?.body.hasReaders === true
    },
    open(head) {
      const found = headOf(head)
      if (found === undefined) return
      const length = headerValue(head.headers, 'content-length')
      const body = new LiveBody(maxBytes, length === undefined ? undefined : Number(length))
      live = { held: holdAt(found), body }
    },
    write(chunk) {
      if (chunk.byteLength === 0) return true
      if (live === undefined || !live.body.write(chunk)) return false
      if (published || !live.body.isJoinable) return published
      // The response is published with its first byte. If the run fails before it, waiters can
      // still look up again.
      published = !lead.hasTimedOut && publish(live)
      if (!published) live = undefined
      return published
    },
    end(whole) {
      live?.body.end(whole)
    },
  }
}

function holdAt({ entry, freshMs, bornAt }: LiveHead): Live['held'] {
  const none = { staleWhileRevalidateMs: 0, staleIfErrorMs: 0, keepMs: 0, physicalMs: freshMs }
  return { ...heldEntry(entry, '', { freshMs, ...none }, bornAt), entry }
}

/**
 * Gives the response to the waiters of the flight. False if it was purged meanwhile, or if a purge
 * may have been missed.
 */
export function publish(rt: Runtime, flight: Flight, live: Live): boolean {
  if (rt.closed || rt.flights.get(flight.key) !== flight || !mayShow(rt, flight, live)) return false
  flight.showLive(live)
  flight.waiters.settleEach(({ caller }) => (caller.acceptsLive ? liveFor(live) : undefined))
  return true
}

/**
 * Adds a new caller to the response that the handler is writing. Undefined if the caller cannot get
 * the response from its first byte any more.
 */
export function joinLive(rt: Runtime, flight: Flight, caller: Caller): Resolution | undefined {
  const { live } = flight
  if (live === undefined || !caller.acceptsLive || !live.body.isJoinable) return undefined
  return mayShow(rt, flight, live) ? liveFor(live) : undefined
}

function mayShow(rt: Runtime, flight: Flight, { held }: Live): boolean {
  return isConfirmed(rt, flight.fillingSince) && rt.marks.judge(held.entry.provenance) === 'valid'
}

function liveFor({ held, body }: Live): Resolution | undefined {
  const chunks = body.attach()
  return chunks && { type: 'live', held, chunks, length: body.length }
}
