// Reads a record and the server's time with plain commands, at a third of the cost of a script. The
// reads are not atomic, so their order matters: the time, the record, the record of its group.

import { withBudget } from '../connection/budget.ts'
import type { Connection } from '../connection/connection.ts'
import type { ServerClock } from '../connection/server-clock.ts'
import { type ServerTime, turnOf } from '../connection/turn.ts'
import { send } from './run-script.ts'

/** Each value a Buffer, or null where there is none. */
export interface RecordRead {
  /** Milliseconds of the server's clock; NaN if it did not say. */
  readonly serverNow: number
  readonly fields: readonly unknown[]
  /** Undefined where there is no group. */
  readonly stamps: readonly unknown[] | undefined
}

export interface RecordNames {
  readonly record: string
  readonly fields: readonly string[]
  /** Another record, read after it. */
  readonly group: string | undefined
  readonly stamps: readonly string[]
}

/** Rejects with what Redis or ioredis said, or when the budget is spent. */
export async function readRecord(
  connection: Connection,
  clock: ServerClock,
  budgetMs: number,
  { record, fields, group, stamps }: RecordNames,
): Promise<RecordRead> {
  const time = timeOfTurn(connection, clock)
  const read = send(connection, 'HMGET', record, ...fields)
  if (group === undefined) {
    const found = list(await withBudget(budgetMs, read))
    return { serverNow: time.serverNow, fields: found, stamps: undefined }
  }
  const both = Promise.all([read, send(connection, 'HMGET', group, ...stamps)])
  const [found, marks] = await withBudget(budgetMs, both)
  return { serverNow: time.serverNow, fields: list(found), stamps: list(marks) }
}

/** Sends TIME once per turn of the event loop. */
function timeOfTurn(connection: Connection, clock: ServerClock): ServerTime {
  const turn = connection.stream === undefined ? undefined : turnOf(connection.stream)
  if (turn?.time !== undefined) return turn.time
  const time = { serverNow: Number.NaN }
  const sentAt = clock.now()
  const tell = (reply: unknown) => {
    const [seconds, microseconds] = list(reply)
    time.serverNow = Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
    clock.observe(time.serverNow, sentAt)
  }
  // Without the time, no entry counts as fresh.
  send(connection, 'TIME').then(tell, () => {})
  if (turn !== undefined) turn.time = time
  return time
}

function list(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : []
}
