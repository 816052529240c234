// The data of the simulated server: hashes, sorted sets and streams, their expiry, and commands.
// Bytes are strings with one character a byte (latin1). This file knows nothing of the scripts. A
// command that is missing here throws, so a script that needs it fails at once.

import { formatted } from './lua-numbers.ts'
import { after, idOf, type StreamEntry, type StreamId } from './stream-ids.ts'

export interface Status {
  readonly ok: string
}

export type Reply = string | number | null | Status | readonly Reply[]

/** An error reply, as a client or `redis.pcall` gets it. */
export class CommandError extends Error {}

/** Its identity tells whether a key was deleted and made again. */
export type Value =
  | { readonly type: 'hash'; readonly fields: Map<string, string> }
  | { readonly type: 'zset'; readonly scores: Map<string, number> }
  | { readonly type: 'stream'; entries: StreamEntry[]; last: StreamId }

type Of<T extends Value['type']> = Extract<Value, { type: T }>

/** A write as a replica gets it: with the moment of an expiry, not with its duration. */
export type Write = readonly string[]

/** Publishes a message on a channel, and returns the number of receivers. */
export type Publish = (channel: string, message: string) => number

export class Keyspace {
  /** Fixed while a command or script runs. */
  readonly micros: () => number
  publish: Publish
  runId = 'run0'
  /** The error of each write: a replica, or a master that is cut off. */
  refusal: string | undefined
  /** The writes since the caller last emptied the list. */
  writes: Write[] = []
  readonly #values = new Map<string, Value>()
  readonly #ends = new Map<string, number>()

  constructor(micros: () => number, publish: Publish) {
    this.micros = micros
    this.publish = publish
  }

  get now(): number {
    return Math.floor(this.micros() / 1000)
  }

  get keys(): string[] {
    return [...this.#values.keys()]
  }

  /** When the key expires, in ms of the server's clock. */
  endOf(key: string): number | undefined {
    return this.#ends.get(key)
  }

  /** Undefined: there is no such key, or it expired. */
  get(key: string): Value | undefined {
    const value = this.#values.get(key)
    if (value === undefined || this.now <= (this.#ends.get(key) ?? Number.POSITIVE_INFINITY)) {
      return value
    }
    // Only the master deletes an expired key, and tells its replicas.
    if (this.refusal === undefined) this.delete(key)
    return undefined
  }

  /** As DEL. False: there was no such key. */
  delete(key: string): boolean {
    this.#ends.delete(key)
    if (!this.#values.delete(key)) return false
    this.writes.push(['DEL', key])
    return true
  }

  call(name: string, args: readonly string[]): Reply {
    const command = name.toUpperCase()
    const read = READS[command]
    if (read !== undefined) return read(this, args)
    const write = WRITES[command]
    if (write === undefined) throw new Error(`keyspace.ts has no command ${command}: add it`)
    if (this.refusal !== undefined) throw new CommandError(this.refusal)
    return write(this, args)
  }

  typed<T extends Value['type']>(key: string, type: T): Of<T> | undefined {
    const value = this.get(key)
    if (value === undefined || value.type === type) return value as Of<T> | undefined
    throw new CommandError(WRONG_TYPE)
  }

  made<T extends Value>(key: string, fresh: T): T {
    const value = this.typed(key, fresh.type)
    if (value !== undefined) return value as T
    this.#values.set(key, fresh)
    return fresh
  }

  /** Undefined: for ever. */
  setEnd(key: string, end: number | undefined): void {
    if (end === undefined) this.#ends.delete(key)
    else this.#ends.set(key, end)
  }
}

const WRONG_TYPE = 'WRONGTYPE Operation against a key holding the wrong kind of value'

type Command = (data: Keyspace, args: readonly string[]) => Reply

const READS: Readonly<Record<string, Command>> = {
  TIME(data) {
    const micros = data.micros()
    return [String(Math.floor(micros / 1e6)), String(micros % 1e6)]
  },
  INFO: ({ runId }) => `run_id:${runId}\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n`,
  PUBLISH: (data, [channel = '', message = '']) => data.publish(channel, message),
  TYPE: (data, [key = '']) => ({ ok: data.get(key)?.type ?? 'none' }),
  EXISTS: (data, keys) => keys.filter((key) => data.get(key) !== undefined).length,
  PTTL(data, [key = '']) {
    if (data.get(key) === undefined) return -2
    const end = data.endOf(key)
    return end === undefined ? -1 : end - data.now
  },
  HGET: (data, [key = '', field = '']) => hashAt(data, key)?.get(field) ?? null,
  HMGET(data, [key = '', ...fields]) {
    const hash = hashAt(data, key)
    return fields.map((field) => hash?.get(field) ?? null)
  },
  HGETALL: (data, [key = '']) => [...(hashAt(data, key) ?? [])].flat(),
  HKEYS: (data, [key = '']) => [...(hashAt(data, key)?.keys() ?? [])],
  HLEN: (data, [key = '']) => hashAt(data, key)?.size ?? 0,
  ZCARD: (data, [key = '']) => data.typed(key, 'zset')?.scores.size ?? 0,
  ZCOUNT(data, [key = '', min = '', max = '']) {
    return ranked(data, key).filter(([, score]) => isWithin(score, min, max)).length
  },
  ZRANGE(data, [key = '', start, stop, withScores]) {
    return shown(sliced(ranked(data, key), start, stop), withScores !== undefined)
  },
  ZRANGEBYSCORE(data, [key = '', min = '', max = '', ...options]) {
    const within = ranked(data, key).filter(([, score]) => isWithin(score, min, max))
    const limit = options.findIndex((option) => option.toUpperCase() === 'LIMIT')
    const [from, count] = limit < 0 ? [0, -1] : options.slice(limit + 1, limit + 3).map(integer)
    const taken = within.slice(from, Number(count) < 0 ? undefined : Number(from) + Number(count))
    return shown(
      taken,
      options.some((option) => option.toUpperCase() === 'WITHSCORES'),
    )
  },
  XRANGE(data, [key = '', start = '', end = '', , count]) {
    const from = idOf(start.replace('(', ''), 0n)
    const to = idOf(end, (1n << 64n) - 1n)
    const entries = data.typed(key, 'stream')?.entries ?? []
    const within = entries.filter(({ id }) => {
      const isFrom = start.startsWith('(') ? after(id, from) : !after(from, id)
      return isFrom && !after(id, to)
    })
    const taken = count === undefined ? within : within.slice(0, integer(count))
    return taken.map(({ text, fields }) => [text, fields])
  },
}

const WRITES: Readonly<Record<string, Command>> = {
  DEL: (data, keys) => keys.filter((key) => data.get(key) !== undefined && data.delete(key)).length,
  PEXPIRE: (data, [key = '', ms = '']) => expireAt(data, key, data.now + integer(ms)),
  PEXPIREAT: (data, [key = '', end = '']) => expireAt(data, key, integer(end)),
  PERSIST(data, [key = '']) {
    if (data.get(key) === undefined || data.endOf(key) === undefined) return 0
    data.setEnd(key, undefined)
    data.writes.push(['PERSIST', key])
    return 1
  },
  HSET(data, [key = '', ...pairs]) {
    if (pairs.length % 2 === 1) {
      throw new CommandError("ERR wrong number of arguments for 'hset' command")
    }
    const { fields } = data.made(key, { type: 'hash', fields: new Map<string, string>() })
    const before = fields.size
    for (let i = 0; i < pairs.length; i += 2) fields.set(pairs[i] as string, pairs[i + 1] as string)
    data.writes.push(['HSET', key, ...pairs])
    return fields.size - before
  },
  HDEL(data, [key = '', ...names]) {
    const hash = hashAt(data, key)
    const deleted = names.filter((name) => hash?.delete(name)).length
    if (deleted > 0) data.writes.push(['HDEL', key, ...names])
    if (hash?.size === 0) data.delete(key)
    return deleted
  },
  ZADD(data, [key = '', score = '', member = '']) {
    const { scores } = data.made(key, { type: 'zset', scores: new Map<string, number>() })
    const before = scores.size
    scores.set(member, Number(score))
    data.writes.push(['ZADD', key, score, member])
    return scores.size - before
  },
  ZREMRANGEBYRANK(data, [key = '', start, stop]) {
    const removed = sliced(ranked(data, key), start, stop)
    const { scores } = data.typed(key, 'zset') ?? {}
    for (const [member] of removed) scores?.delete(member)
    if (removed.length > 0) data.writes.push(['ZREMRANGEBYRANK', key, String(start), String(stop)])
    if (scores?.size === 0) data.delete(key)
    return removed.length
  },
  XADD(data, [key = '', maxlen = '', about = '', most = '', text = '', ...fields]) {
    if (maxlen.toUpperCase() !== 'MAXLEN' || about !== '~') throw new Error('XADD: MAXLEN ~ only')
    const stream = data.made<Of<'stream'>>(key, { type: 'stream', entries: [], last: [0n, 0n] })
    const id = idOf(text, 0n)
    if (!after(id, stream.last)) throw new CommandError(SMALL_ID)
    stream.entries.push({ id, text: id.join('-'), fields })
    stream.last = id
    data.writes.push(['XADD', key, maxlen, about, most, text, ...fields])
    trim(stream, integer(most), true)
    return id.join('-')
  },
  XTRIM(data, [key = '', , ...sizes]) {
    const stream = data.typed(key, 'stream')
    if (stream === undefined) return 0
    const trimmed = trim(stream, integer(sizes.at(-1) ?? ''), sizes[0] === '~')
    if (trimmed > 0) data.writes.push(['XTRIM', key, 'MAXLEN', ...sizes])
    return trimmed
  },
}

const SMALL_ID = 'ERR The ID specified in XADD is equal or smaller than the target stream top item'
/** An approximate trim drops whole nodes only. */
const NODE_ENTRIES = 100

function trim(stream: Of<'stream'>, most: number, isAbout: boolean): number {
  const over = Math.max(0, stream.entries.length - most)
  return stream.entries.splice(0, isAbout ? over - (over % NODE_ENTRIES) : over).length
}

function expireAt(data: Keyspace, key: string, end: number): number {
  if (data.get(key) === undefined) return 0
  if (end <= data.now) {
    data.delete(key)
  } else {
    data.setEnd(key, end)
    data.writes.push(['PEXPIREAT', key, String(end)])
  }
  return 1
}

function hashAt(data: Keyspace, key: string): Map<string, string> | undefined {
  return data.typed(key, 'hash')?.fields
}

type Scored = readonly [member: string, score: number]

function ranked(data: Keyspace, key: string): Scored[] {
  const scores = data.typed(key, 'zset')?.scores ?? []
  return [...scores].sort(([a, x], [b, y]) => x - y || (a < b ? -1 : 1))
}

/** A negative index counts from the end. */
function sliced(all: readonly Scored[], start = '', stop = ''): readonly Scored[] {
  const [from, to] = [integer(start), integer(stop)]
  const first = from < 0 ? Math.max(0, all.length + from) : from
  return all.slice(first, (to < 0 ? all.length + to : to) + 1)
}

function shown(all: readonly Scored[], withScores: boolean): string[] {
  return all.flatMap(([member, score]) => (withScores ? [member, formatted(score, 17)] : [member]))
}

function isWithin(score: number, min: string, max: string): boolean {
  const isAbove = min.startsWith('(') ? score > bound(min.slice(1)) : score >= bound(min)
  return isAbove && (max.startsWith('(') ? score < bound(max.slice(1)) : score <= bound(max))
}

function bound(text: string): number {
  const bounds: Record<string, number> = { '-inf': -Infinity, '+inf': Infinity }
  return bounds[text] ?? Number(text)
}

function integer(text: string): number {
  if (!/^(0|-?[1-9]\d*)$/.test(text)) {
    throw new CommandError('ERR value is not an integer or out of range')
  }
  return Number(text)
}
