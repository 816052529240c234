// `collapse: 'stream'`: shows a leader's response, while it comes, to the waiters of its own
// flight. Only a response that is to be stored is shown, only from its first byte on, and never one
// that was purged meanwhile.

import { holdFor, type StoredResponse } from '../entry/entry.ts'
import type { Flight } from '../flight/flight.ts'
import type { Caller, Lead, Resolution } from '../flight/resolution.ts'
import type { Runtime } from '../flight/runtime.ts'
import { headerValue } from '../http/headers.ts'
import { isConfirmed } from '../l1/validity.ts'
import type { CapturedHead, LiveSink } from '../ports/exchange.ts'
import type { Live } from './live-body.ts'
import { LiveBody } from './live-body.ts'

/** A response whose head arrived at `bornAt`; its body is still coming. */
interface LiveHead {
  readonly entry: StoredResponse
  readonly freshMs: number
  readonly bornAt: number
}

/** What a run shows its body to. `headOf` is undefined when the head was not found storable. */
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
    get watched() {
      return live?.body.watched === true
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
      if (published || !live.body.joinable) return published
      // With the first byte: as long as nothing has come, nothing is lost by looking again.
      published = !lead.isLate && publish(live)
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
  return { ...holdFor(entry, '', { freshMs, ...none }, bornAt), entry }
}

/** False when newcomers must not see it: purged since, or nobody would have told us. */
export function publish(rt: Runtime, flight: Flight, live: Live): boolean {
  if (rt.closed || rt.flights.get(flight.key) !== flight || !isShown(rt, flight, live)) return false
  flight.showLive(live)
  flight.waiters.settleEach(rt, ({ caller }) => (caller.takesLive ? liveFor(live) : undefined))
  return true
}

/** What somebody who comes now is answered with, if there is an answer on its way from its start. */
export function joinLive(rt: Runtime, flight: Flight, caller: Caller): Resolution | undefined {
  const { live } = flight
  if (live === undefined || !caller.takesLive || !live.body.joinable) return undefined
  return isShown(rt, flight, live) ? liveFor(live) : undefined
}

function isShown(rt: Runtime, flight: Flight, { held }: Live): boolean {
  return isConfirmed(rt, flight.fillingSince) && rt.marks.judge(held.entry.made) === 'valid'
}

function liveFor({ held, body }: Live): Resolution | undefined {
  const chunks = body.attach()
  return chunks && { type: 'live', held, chunks, length: body.length }
}
