// Reads the log of purges: replies of lua/append-purge-3.lua and lua/read-purges-3.lua, and
// messages on its channel. The server is not trusted: each part is checked.

import { type Position, unknownReply } from '@stampede/core/store'

/** A purge of one key and its variants, or of everything made under a subject. */
export interface Purge {
  readonly of: 'key' | 'subject'
  readonly name: string
  readonly soft: boolean
}

export interface PurgeEvent extends Purge {
  readonly position: Position
}

/** An event and the position of the one before it. */
export interface LinkedEvent extends PurgeEvent {
  readonly prev: Position
}

/** `isTold`: the purge was published to the other processes. */
export interface Appended {
  readonly now: Position
  readonly position: Position
  readonly prev: Position
  readonly isTold: boolean
}

export interface News {
  /**
   * True: `events` has every purge up to `last`. False: it has the newest purge of each subject,
   * and purges by key are unknown.
   */
  readonly isComplete: boolean
  /** There is more after `last`. */
  readonly hasMore: boolean
  /** The server's clock, in microseconds, as positions are. */
  readonly now: Position
  readonly last: Position
  /** What was made before may have been purged. */
  readonly floor: Position
  /** run_id of the server; empty if it is unknown. */
  readonly run: string
  readonly events: readonly PurgeEvent[]
}

export function writeEvent({ of, name, soft }: Purge): string {
  return (of === 'key' ? 'k' : 'm') + (soft ? 's' : 'h') + name
}

/** `position prev event`; undefined for anything else. */
export function readMessage(message: string): LinkedEvent | undefined {
  const [, position, prev, text = ''] = /^(\d+) (\d+) (.*)$/s.exec(message) ?? []
  const event = readEvent(text, readPosition(position))
  const before = readPosition(prev)
  if (event === undefined || before === undefined || before >= event.position) return undefined
  return { ...event, prev: before }
}

export function readAppended(raw: unknown): Appended {
  const [status, ...numbers] = Array.isArray(raw) ? raw.map(String) : []
  const [now, position, prev] = numbers.map(readPosition)
  if (now === undefined || position === undefined || prev === undefined) {
    throw unknownReply('redis', 'append-purge', 'unknown reply')
  }
  return { now, position, prev, isTold: status === 'APPENDED' }
}

export function readNews(raw: unknown): News {
  const [status, ...rest] = Array.isArray(raw) ? raw.map(String) : []
  const [now, last, floor] = rest.slice(0, 3).map(readPosition)
  if (now === undefined || last === undefined || floor === undefined) {
    throw unknownReply('redis', 'read-purges', 'unknown reply')
  }
  const isLog = status === 'LOG' || status === 'PART'
  const events: PurgeEvent[] = []
  /** Position of the newest unreadable event: it may have purged anything made before. */
  let unknown: Position = 0
  for (let i = 4; i + 1 < rest.length; i += 2) {
    const position = readPosition(rest[i]) ?? last
    const event = readEvent(isLog ? rest[i + 1] : `m${rest[i + 1]}`, position)
    if (event === undefined) unknown = Math.max(unknown, position)
    else events.push(event)
  }
  const isComplete = isLog && unknown === 0
  const hasMore = status === 'MORE' || status === 'PART'
  const run = rest[3] ?? ''
  return { isComplete, hasMore, now, last, floor: Math.max(floor, unknown), run, events }
}

/** Undefined if there is none, or it was not written by a script of ours. */
export function readPosition(value: unknown): Position | undefined {
  const text = String(value ?? '')
  const position = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  return position < GREATEST ? position : undefined
}

/** As in the scripts; some room is left below the greatest safe integer to count on from. */
const GREATEST = 9e15

function readEvent(text = '', position: Position | undefined): PurgeEvent | undefined {
  const [, of, how, name] = /^([km])([hs])(.+)$/s.exec(text) ?? []
  if (name === undefined || position === undefined) return undefined
  return { of: of === 'k' ? 'key' : 'subject', name, soft: how === 's', position }
}
