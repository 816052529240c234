// Reads the log of purges: replies of lua/append-purge-3.lua and lua/read-purges-3.lua, and
// messages on its channel. The server is not trusted: each part is checked.

import { type Position, unknownReply } from '@stampede/core/store'

/** A purge of one key and its variants, or of everything made under a subject. */
export interface Purge {
  readonly of: 'key' | 'subject'
  readonly name: string
  readonly soft: boolean
}

/**
 * `<position>-<random>` of an event in the log. The random number tells apart two events of one position:
 * after a fail-over, a new event may get the position of a lost one. 0: unknown.
 */
export type EventId = string

/** The ID before the first event. */
export const NO_EVENT: EventId = '0-0'

export interface PurgeEvent extends Purge {
  readonly id: EventId
}

/** An event and the ID of the one before it. */
export interface LinkedEvent extends PurgeEvent {
  readonly prev: EventId
}

/** `isTold`: the purge was published to the other processes. */
export interface Appended {
  readonly now: Position
  readonly id: EventId
  readonly prev: EventId
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
  readonly last: EventId
  /** What was made before may have been purged. */
  readonly floor: Position
  /** run_id of the server; empty if it is unknown. */
  readonly run: string
  readonly events: readonly PurgeEvent[]
}

export function writeEvent({ of, name, soft }: Purge): string {
  return (of === 'key' ? 'k' : 'm') + (soft ? 's' : 'h') + name
}

/** `ID, ID of the event before, event`, as append-purge publishes it; undefined for anything else. */
export function readMessage(message: string): LinkedEvent | undefined {
  const [, id, prev, text = ''] = /^(\S+) (\S+) (.*)$/s.exec(message) ?? []
  const [event, before] = [readEvent(text, readId(id)), readId(prev)]
  if (event === undefined || before === undefined) return undefined
  return positionOf(before) < positionOf(event.id) ? { ...event, prev: before } : undefined
}

export function readAppended(raw: unknown): Appended {
  const [status, time, ...ids] = Array.isArray(raw) ? raw.map(String) : []
  const [now, id, prev] = [readPosition(time), ...ids.map(readId)]
  if (now === undefined || id === undefined || prev === undefined) {
    throw unknownReply('redis', 'append-purge', 'unknown reply')
  }
  return { now, id, prev, isTold: status === 'APPENDED' }
}

export function readNews(raw: unknown): News {
  const [status, ...rest] = Array.isArray(raw) ? raw.map(String) : []
  const [now, last, floor] = [readPosition(rest[0]), readId(rest[1]), readPosition(rest[2])]
  if (now === undefined || last === undefined || floor === undefined) {
    throw unknownReply('redis', 'read-purges', 'unknown reply')
  }
  const isLog = status === 'LOG' || status === 'PART'
  const events: PurgeEvent[] = []
  /** Position of the newest unreadable event: it may have purged anything made before. */
  let unknown: Position = 0
  for (let i = 4; i + 1 < rest.length; i += 2) {
    const id = readId(rest[i]) ?? last
    const event = readEvent(isLog ? rest[i + 1] : `m${rest[i + 1]}`, id)
    if (event === undefined) unknown = Math.max(unknown, positionOf(id))
    else events.push(event)
  }
  const isComplete = isLog && unknown === 0
  const hasMore = status === 'MORE' || status === 'PART'
  const run = rest[3] ?? ''
  return { isComplete, hasMore, now, last, floor: Math.max(floor, unknown), run, events }
}

/** Undefined if there is none, or it was not written by a script of ours. */
export function readId(value: unknown): EventId | undefined {
  const [, position, random] = /^(\d+)-(\d{1,15})$/.exec(String(value ?? '')) ?? []
  return readPosition(position) === undefined ? undefined : `${position}-${random}`
}

/** When the event was appended: microseconds of the server's clock. */
export function positionOf(id: EventId): Position {
  return Number(id.slice(0, id.indexOf('-')))
}

/**
 * True if a history that ends with `last` does not have `known`: it ends before it, or has another
 * event of its position.
 */
export function lacks(last: EventId, known: EventId): boolean {
  const [end, at] = [positionOf(last), positionOf(known)]
  return end < at || (end === at && last !== known && !known.endsWith('-0'))
}

/** Undefined if there is none, or it was not written by a script of ours. */
export function readPosition(value: unknown): Position | undefined {
  const text = String(value ?? '')
  const position = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  return position < GREATEST ? position : undefined
}

/** As in the scripts; some room is left below the greatest safe integer to count on from. */
const GREATEST = 9e15

function readEvent(text = '', id: EventId | undefined): PurgeEvent | undefined {
  const [, of, how, name] = /^([km])([hs])(.+)$/s.exec(text) ?? []
  if (name === undefined || id === undefined) return undefined
  return { of: of === 'k' ? 'key' : 'subject', name, soft: how === 's', id }
}
