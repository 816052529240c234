// Random calls of every script, on the script engine of the simulation and on a real Redis. Both
// have the same clock and the same data, so replies, records and messages must be equal.

import type { Redis } from 'ioredis'
import { type Random, randomFrom } from '../fuzz/leaks/random.ts'
import { lookupValues } from './entry-scripts.ts'
import { CommandError, Keyspace, type Reply } from './keyspace.ts'
import { SOURCES } from './link.ts'
import { CALLS, NAMES, type Scene } from './random-calls.ts'
import { ScriptBug, ScriptEngine } from './script-engine.ts'

export interface Compared {
  /** By script and first word of the reply. */
  readonly seen: Map<string, number>
  readonly differences: string[]
}

/**
 * Stands before the text of a script on the real server. Its clock is the last argument. Keys never
 * expire by themselves there: their ends are moved far ahead, and are seen as if they were not.
 */
const SAME_CLOCK = `
local clock, server, redis, ahead = table.remove(ARGV), redis, {}, 1e13
for _, how in ipairs({'call', 'pcall'}) do
  redis[how] = function(name, ...)
    local key, ms = ...
    local now = math.floor(clock / 1000)
    if name == 'TIME' then
      return {string.sub(clock, 1, -7), tostring(tonumber(string.sub(clock, -6)))}
    elseif name == 'PEXPIRE' then
      if ms + 0 <= 0 then return server[how]('DEL', key) end
      return server[how]('PEXPIREAT', key, string.format('%.0f', now + ms + ahead))
    elseif name == 'PTTL' then
      local at = server[how]('PEXPIRETIME', key)
      return at < 0 and at or at - ahead - now
    end
    return server[how](name, ...)
  end
end
`
const AHEAD_MS = 1e13
/** Messages on these channels have a receiver. */
export const HEARD = ['w:p1', 'w:p2', 'g:p1', 'log', 'settled']
/** As many calls are sent in one write. */
const BATCH = 250

export async function compareCalls(
  clients: { readonly redis: Redis; readonly subscriber: Redis },
  seed: number,
  calls: number,
): Promise<Compared> {
  const { redis, subscriber } = clients
  const heard: string[] = []
  subscriber.on('messageBuffer', (channel: Buffer, message: Buffer) => {
    heard.push(`${channel} ${message.toString('latin1')}`)
  })
  await redis.flushall()
  await subscriber.subscribe(...HEARD)
  const [, runId = ''] = /run_id:(\w+)/.exec(await redis.info('server')) ?? []
  const pair = new Pair(redis, randomFrom(seed), runId)
  await pair.load()
  for (let done = 0; done < calls; done += BATCH) await pair.batch(BATCH)
  await pair.compareKeys()
  await subscriber.ping()
  // The order of the waiters of one record is not defined.
  if (heard.sort().join('\n') !== pair.published.sort().join('\n')) {
    pair.differences.push(`${heard.length} messages, not the ${pair.published.length} expected`)
  }
  return pair
}

class Pair implements Compared {
  readonly seen = new Map<string, number>()
  readonly differences: string[] = []
  readonly published: string[] = []
  readonly #redis: Redis
  readonly #random: Random
  readonly #shas = new Map<string, string>()
  readonly #engine = new ScriptEngine()
  readonly #data: Keyspace
  /** Fences and IDs in replies, by key. */
  readonly #known = new Map<string, string[]>()
  #micros = 1_700_000_000_000_000

  constructor(redis: Redis, random: Random, runId: string) {
    this.#redis = redis
    this.#random = random
    this.#data = new Keyspace(
      () => this.#micros,
      (channel, message) => {
        if (!HEARD.includes(channel)) return 0
        this.published.push(`${channel} ${message}`)
        return 1
      },
    )
    this.#data.runId = runId
  }

  async load(): Promise<void> {
    for (const [name, source] of SOURCES) {
      this.#shas.set(name, String(await this.#redis.script('LOAD', SAME_CLOCK + source)))
    }
  }

  async batch(calls: number): Promise<void> {
    const pending: Array<Promise<void>> = []
    for (let i = 0; i < calls; i++) {
      this.#passTime(pending)
      const random = this.#random
      if (random.chance(0.03)) this.#spoil(pending)
      const name = random.pick(NAMES)
      const [keys, args] = CALLS[name]?.(random, this.#scene) ?? [[], []]
      pending.push(this.#compare(name, keys, args))
    }
    await Promise.all(pending)
  }

  async compareKeys(): Promise<void> {
    const { keys } = this.#data
    if ((await this.#redis.dbsize()) !== keys.length) this.differences.push('other keys')
    await Promise.all(keys.map((key) => this.#compareKey(key)))
  }

  #passTime(pending: Array<Promise<void>>): void {
    const random = this.#random
    const ms = random.chance(0.04) ? random.pick([-3_000, 2_500, 6_000, 70_000]) : random.int(40)
    this.#micros += ms * 1_000 + random.int(900)
    this.#data.writes = []
    for (const key of this.#data.keys) this.#data.get(key)
    for (const [, key = ''] of this.#data.writes) pending.push(this.#same('DEL', [key]))
  }

  /** Another program writes to a record, or deletes it. */
  #spoil(pending: Array<Promise<void>>): void {
    const random = this.#random
    const key = random.pick(this.#data.keys.length > 0 ? this.#data.keys : ['{a}'])
    const value = this.#data.get(key)
    const fields = value?.type === 'hash' ? [...value.fields.keys()] : []
    const now = Math.floor(this.#micros / 1_000)
    const text = random.pick([
      '',
      'x',
      '0',
      '-1',
      '1e3',
      '9'.repeat(30),
      `${now + 900} ${now + 800}`,
    ])
    if (fields.length > 0 && random.chance(0.7)) {
      pending.push(this.#same('HSET', [key, random.pick(fields), text]))
    } else {
      pending.push(this.#same('DEL', [key]))
      if (random.chance(0.3)) pending.push(this.#same('ZADD', [key, '1', 'other']))
    }
  }

  async #same(name: string, args: readonly string[]): Promise<void> {
    this.#data.call(name, args)
    await this.#redis.callBuffer(name, ...args)
  }

  readonly #scene: Scene = {
    now: () => Math.floor(this.#micros / 1_000),
    known: (key) => this.#random.pick(this.#known.get(key) ?? ['1']),
  }

  async #compare(name: string, keys: readonly string[], args: readonly string[]): Promise<void> {
    const source = SOURCES.get(name) ?? ''
    const at = String(this.#micros)
    const expected = this.#run(source, keys, args)
    this.#learn(keys[0] ?? '', expected)
    const [status] = lookupValues(expected)
    const outcome = `${name} ${status}`
    this.seen.set(outcome, (this.seen.get(outcome) ?? 0) + 1)
    const bytes = [...args, at].map((each) => Buffer.from(each, 'latin1'))
    const reply = await this.#redis
      .callBuffer('EVALSHA', this.#shas.get(name) ?? '', keys.length, ...keys, ...bytes)
      .then(replied, errorOf)
    if (JSON.stringify(reply) === JSON.stringify(expected)) return
    const call = `${name} ${keys} | ${args.map((each) => each.slice(0, 40)).join(' | ')}`
    this.differences.push(
      `${call}\n  redis ${JSON.stringify(reply)}\n  here  ${JSON.stringify(expected)}`,
    )
  }

  #run(source: string, keys: readonly string[], args: readonly string[]): Reply {
    const call = (command: string, given: readonly string[]) => this.#data.call(command, given)
    try {
      return this.#engine.run(source, keys, args, call)
    } catch (error) {
      if (!(error instanceof CommandError || error instanceof ScriptBug)) throw error
      return error instanceof ScriptBug ? 'a bug of the script' : `error: ${error.message}`
    }
  }

  #learn(key: string, reply: Reply): void {
    const words = [reply].flat().flatMap((each) => String(each).slice(0, 100).split(' '))
    const fences = words.filter((each) => /^\d{16}(-\d+)?$/.test(each))
    if (fences.length > 0)
      this.#known.set(key, [...fences, ...fences, ...(this.#known.get(key) ?? [])].slice(0, 5))
  }

  async #compareKey(key: string): Promise<void> {
    const value = this.#data.get(key)
    const end = this.#data.endOf(key)
    const shownEnd = Number(await this.#redis.call('PEXPIRETIME', key))
    let [shown, expected]: unknown[] = [undefined, undefined]
    if (value?.type === 'hash') {
      shown = Object.entries(await this.#redis.hgetallBuffer(key))
        .map(([field, text]) => `${field} ${text.toString('latin1')}`)
        .sort()
      expected = [...value.fields].map(([field, text]) => `${field} ${text}`).sort()
    } else if (value?.type === 'zset') {
      // RESP3 has pairs.
      const scored = await this.#redis.callBuffer('ZRANGE', key, '0', '-1', 'WITHSCORES')
      shown = (replied(scored) as Reply[]).flat()
      expected = this.#data.call('ZRANGE', [key, '0', '-1', 'WITHSCORES'])
    } else {
      shown = replied(await this.#redis.callBuffer('XRANGE', key, '-', '+'))
      expected = this.#data.call('XRANGE', [key, '-', '+'])
    }
    const isSame = JSON.stringify(shown) === JSON.stringify(expected)
    if (isSame && shownEnd === (end === undefined ? -1 : end + AHEAD_MS)) return
    this.differences.push(
      `${key}\n  redis ${shownEnd} ${JSON.stringify(shown)}\n  here  ${end} ${JSON.stringify(expected)}`,
    )
  }
}

export function replied(reply: unknown): Reply {
  if (reply instanceof Uint8Array) return Buffer.from(reply).toString('latin1')
  return Array.isArray(reply) ? reply.map(replied) : (reply as Reply)
}

/** The text of a bug in a script has lines and names of the interpreter. */
export function errorOf({ message }: Error): string {
  if (/^ERR (Error running script|user_script)/.test(message)) return 'a bug of the script'
  return `error: ${message.split(/ script: /)[0]}`
}
