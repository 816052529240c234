// The script engine of the simulation (test/simulation), compared with a real Redis: replies,
// records and messages of each script are equal. `npm run test:soak` makes far more random calls.

import { Redis } from 'ioredis'
import { afterAll, describe, expect, it } from 'vitest'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { compareCalls, errorOf, replied } from '../simulation/differential.ts'
import { CommandError, Keyspace } from '../simulation/keyspace.ts'
import { SOURCES } from '../simulation/link.ts'
import { ScriptBug, ScriptEngine } from '../simulation/script-engine.ts'

const { admin: redis, server } = await redisOfFile()
const subscriber = new Redis(server.url)
afterAll(() => subscriber.disconnect())

describe('the script engine of the simulation', () => {
  it('replies and leaves what Redis does, for 2 000 random calls of all scripts', async () => {
    const { seen, differences } = await compareCalls({ redis, subscriber }, 7, 2_000)
    expect(differences.slice(0, 5)).toEqual([])
    const scripts = new Set([...seen.keys()].map((each) => each.split(' ')[0]))
    expect([...scripts].sort()).toEqual([...SOURCES.keys()].sort())
    expect(seen.size).toBeGreaterThan(55)
  })

  /**
   * Differences are likely here: the VM has Lua 5.3, and Redis has 5.1. One is known: C rounds a
   * number half-way between two texts to the even one.
   */
  const TEXTS = [
    // Numbers as text.
    "return 'q:' .. 3.0 .. ' ' .. 1.5 .. ' ' .. 1e14 .. ' ' .. 123456789012346",
    "return tostring(2^53) .. ' ' .. 1e15 .. ' ' .. 0.1 .. ' ' .. 1/3 .. ' ' .. -1e-7 .. ' ' .. 1/0",
    "return redis.call('HSET', KEYS[1], 'a', 5000 + 0.0, 'b', 0.1, 'c', 2^53, 'd', 1e17, 'e', -1/3)",
    "return redis.call('HGETALL', KEYS[1])",
    "return string.format('%.0f %s %d %5.1f', 2^53, '1', 12, 1.26)",
    // Numbers from text.
    "return {tonumber('0x10'), tonumber(' 7 '), tonumber('') or 'nil', tonumber('1e3'), tonumber('1 2') or 'nil'}",
    "return {tonumber('.5') * 2, tonumber('5.') + 1, tonumber('-3'), tonumber('--3') or 'nil', '10' * '1000'}",
    "return {('1700000000' * 1000000 + '123456') .. '', math.floor(3.7) * 1000000 * 1000000 .. ''}",
    'return {7 % 3, -7 % 3, 5.5 % 2, 2^10, 9007199254740993 % 9e15}',
    // Replies.
    'return {1, 2.9, -2.9, false, true, 3, nil, 4}',
    "return {ok = 'FINE'}",
    "return {err = 'MINE it is so'}",
    "return redis.call('HSET', KEYS[1], 'f', 1, 'g')",
    "return redis.pcall('HSET', KEYS[1], 'f', 1, 'g')",
    "return {redis.pcall('HGET', KEYS[2], 'f').err}",
    "return {type(redis.call('HGET', KEYS[1], 'none')), #redis.call('HMGET', KEYS[1], 'a', 'none')}",
    "return {type(redis.call('TYPE', KEYS[1])), redis.call('TYPE', KEYS[2]).ok}",
    // Names that scripts do not have.
    'return missing',
    'made = 1',
    'return nil + 1',
    'return {io == nil}',
    'return require',
    // Strings.
    "return {('a\\0b'):len(), ('x'):rep(3), string.match('12 34', '^(%d+) ?(%d*)$'), unpack({1, 2})}",
    "local t = {} for k, v in string.gmatch('a=1,b=2', '(%w)=(%w)') do t[#t + 1] = k .. v end return t",
    "local t = {3, 1, 2} table.sort(t) table.insert(t, 9) return {table.concat(t, ' '), table.remove(t), #t}",
    // Expiry.
    "return {redis.call('PEXPIRE', KEYS[1], 90000), redis.call('PEXPIRE', KEYS[3], 90000), redis.call('PTTL', KEYS[3])}",
    "return redis.call('PEXPIRE', KEYS[1], 1.5)",
    "return {redis.call('PERSIST', KEYS[1]), redis.call('PERSIST', KEYS[1]), redis.call('PTTL', KEYS[1])}",
    "return {redis.call('PEXPIRE', KEYS[1], 0), redis.call('EXISTS', KEYS[1], KEYS[2])}",
    "return {redis.call('HSET', KEYS[1], 'f', 1), redis.call('HDEL', KEYS[1], 'f'), redis.call('EXISTS', KEYS[1])}",
    // Sorted sets: KEYS 2 has a to e.
    "return redis.call('ZRANGE', KEYS[2], -2, -1, 'WITHSCORES')",
    "return redis.call('ZRANGE', KEYS[2], 1, 100)",
    "return redis.call('ZRANGEBYSCORE', KEYS[2], '(1', 3, 'WITHSCORES', 'LIMIT', 1, 5)",
    "return {redis.call('ZCOUNT', KEYS[2], '-inf', '(3'), redis.call('ZCOUNT', KEYS[2], 2, '+inf')}",
    "return {redis.call('ZADD', KEYS[2], 7, 'a'), redis.call('ZREMRANGEBYRANK', KEYS[2], 0, 1), redis.call('ZCARD', KEYS[2])}",
    "return redis.call('HGET', KEYS[2], 'f')",
    // Streams.
    "return {redis.call('XADD', KEYS[3], 'MAXLEN', '~', 9, '5-1', 'f', 'v'), redis.call('XADD', KEYS[3], 'MAXLEN', '~', 9, '5-9', 'f', 'w')}",
    "return redis.call('XADD', KEYS[3], 'MAXLEN', '~', 9, '5-9', 'f', 'v')",
    "return redis.call('XRANGE', KEYS[3], '(5-1', '+', 'COUNT', 5)",
    "return redis.call('XRANGE', KEYS[3], '-', '5', 'COUNT', 1)",
    "return {redis.call('XTRIM', KEYS[3], 'MAXLEN', 0), redis.call('TYPE', KEYS[3]).ok}",
    "return redis.call('XADD', KEYS[3], 'MAXLEN', '~', 9, '5-2', 'f', 'v')",
  ]

  it('has the language of Redis: numbers, replies, errors, names and commands', async () => {
    const keys = ['{z}hash', '{z}zset', '{z}stream']
    const scored = ['1', 'a', '2', 'b', '3', 'c', '4', 'd', '2.5', 'e']
    await redis.flushall()
    const data = new Keyspace(
      () => Date.now() * 1_000,
      () => 0,
    )
    for (let i = 0; i < scored.length; i += 2) {
      const args = ['{z}zset', ...scored.slice(i, i + 2)]
      data.call('ZADD', args)
      await redis.call('ZADD', ...args)
    }
    const engine = new ScriptEngine()
    const [expected, replies]: [unknown[], unknown[]] = [[], []]
    for (const text of TEXTS) {
      const reply = await redis
        .callBuffer('EVAL', text, keys.length, ...keys)
        .then(replied, errorOf)
      expected.push({ text, reply })
      const run = () => engine.run(text, keys, [], (...of) => data.call(...of))
      replies.push({ text, reply: here(run) })
    }
    expect(replies).toEqual(expected)
  })
})

function here(run: () => unknown): unknown {
  try {
    const reply = run()
    return typeof reply === 'object' && reply !== null && 'ok' in reply ? reply.ok : reply
  } catch (error) {
    if (error instanceof ScriptBug) return 'a bug of the script'
    if (error instanceof CommandError) return errorOf(error)
    throw error
  }
}
