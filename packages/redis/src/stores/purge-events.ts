// Parses the purge log: replies of lua/append-purge-3.lua and lua/read-purges-3.lua, and messages
// on its channel. The server is not trusted, so each part is checked.

import type { StampedeStore } from '@stampede/core'
import { storeUnavailable } from '@stampede/core/store'

type StoreHooks = Parameters<StampedeStore['attach']>[0]

/** Number of a purge, in the order of all purges of the fleet. */
export type Position = Parameters<StoreHooks['onForget']>[0]

/** A purge of one key and its variants, or of all entries of a subject. */
export interface Purge {
  readonly of: 'key' | 'subject'
  readonly name: string
  readonly soft: boolean
}

/**
 * `<position>-<random>` of an event in the log. After a fail-over, a new event may get the position
 * of a lost one, but its random number differs. The number 0 stands for an unknown random part.
 */
export type EventId = string

/** The ID before the first event. */
export const NO_EVENT: EventId = '0-0'

export interface PurgeEvent extends Purge {
  readonly id: EventId
}

/** An event with the ID of the previous event. */
export interface LinkedEvent extends PurgeEvent {
  readonly prev: EventId
}

/**
 * The reply of append-purge. `isPublished` is false if Redis refused PUBLISH, so that other
 * processes got no message.
 */
export interface AppendReply {
  readonly now: Position
  /** The last new event. The new events have consecutive positions and one random number. */
  readonly id: EventId
  /** The event before the first new one. */
  readonly prev: EventId
  readonly isPublished: boolean
}

/** One reply with purges that a process missed. */
export interface PurgePage {
  /**
   * If true, `events` has every purge up to `last`. If false, it has only the newest purge of each
   * subject, and purges of keys may be missing.
   */
  readonly isComplete: boolean
  /** Whether there are more events after `last`. */
  readonly hasMore: boolean
  /** Time of the server, in microseconds like positions. */
  readonly now: Position
  readonly last: EventId
  /** The oldest known position. An entry from before it may have been purged. */
  readonly floor: Position
  /** run_id of the server. Empty if it is unknown. */
  readonly run: string
  readonly events: readonly PurgeEvent[]
}

export function writeEvent({ of, name, soft }: Purge): string {
  return (of === 'key' ? 'k' : 'm') + (soft ? 's' : 'h') + name
}

/** Parses a message of append-purge: `<id> <previous id> <event>`. Undefined if it is malformed. */
export function readMessage(message: string): LinkedEvent | undefined {
  const [, id, prev, text = ''] = /^(\S+) (\S+) (.*)$/s.exec(message) ?? []
  const [event, before] = [readEvent(text, readId(id)), readId(prev)]
  if (event === undefined || before === undefined) return undefined
  return positionOf(before) < positionOf(event.id) ? { ...event, prev: before } : undefined
}

export function readAppendReply(raw: unknown): AppendReply {
  const [status, time, ...ids] = Array.isArray(raw) ? raw.map(String) : []
  const [now, id, prev] = [readPosition(time), ...ids.map(readId)]
  if (now === undefined || id === undefined || prev === undefined) {
    throw storeUnavailable('redis', 'append-purge', 'unknown reply')
  }
  return { now, id, prev, isPublished: status === 'APPENDED' }
}

export function readPurgePage(raw: unknown): PurgePage {
  const [status, ...rest] = Array.isArray(raw) ? raw.map(String) : []
  const [now, last, floor] = [readPosition(rest[0]), readId(rest[1]), readPosition(rest[2])]
  if (now === undefined || last === undefined || floor === undefined) {
    throw storeUnavailable('redis', 'read-purges', 'unknown reply')
  }
  const isLog = status === 'LOG' || status === 'PART'
  const events: PurgeEvent[] = []
  /**
   * Position of the newest malformed event. That event may have purged any entry from before it.
   */
  let malformed: Position = 0
  for (let i = 4; i + 1 < rest.length; i += 2) {
    const id = readId(rest[i]) ?? last
    const event = readEvent(isLog ? rest[i + 1] : `m${rest[i + 1]}`, id)
    if (event === undefined) malformed = Math.max(malformed, positionOf(id))
    else events.push(event)
  }
  const isComplete = isLog && malformed === 0
  const hasMore = status === 'MORE' || status === 'PART'
  const run = rest[3] ?? ''
  return { isComplete, hasMore, now, last, floor: Math.max(floor, malformed), run, events }
}

/** Undefined if the value is missing or malformed. */
export function readId(value: unknown): EventId | undefined {
  const [, position, random] = /^(\d+)-(\d{1,15})$/.exec(String(value ?? '')) ?? []
  return readPosition(position) === undefined ? undefined : `${position}-${random}`
}

/** The event `back` positions before `id`, if one command appended both. */
export function earlier(id: EventId, back: number): EventId {
  return `${positionOf(id) - back}${id.slice(id.indexOf('-'))}`
}

/** Position of an event: when it was appended, in microseconds of the server's clock. */
export function positionOf(id: EventId): Position {
  return Number(id.slice(0, id.indexOf('-')))
}

/**
 * Whether a history that ends with `last` lacks the event `known`. It ends before `known`, or has
 * another event at that position.
 */
export function lacks(last: EventId, known: EventId): boolean {
  const [end, at] = [positionOf(last), positionOf(known)]
  return end < at || (end === at && last !== known && !known.endsWith('-0'))
}

/** Undefined if the value is missing or malformed. */
export function readPosition(value: unknown): Position | undefined {
  const text = String(value ?? '')
  const position = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  return position < POSITION_LIMIT ? position : undefined
}

/** Limit of positions. Below it, a script can add to a position without rounding. */
const POSITION_LIMIT = 9e15

function readEvent(text = '', id: EventId | undefined): PurgeEvent | undefined {
  const [, of, how, name] = /^([km])([hs])(.+)$/s.exec(text) ?? []
  if (name === undefined || id === undefined) return undefined
  return { of: of === 'k' ? 'key' : 'subject', name, soft: how === 's', id }
}
