// Data that is left in Redis: records without a TTL, and leases that are still held.
import type { RedisServer } from './redis-server.ts'
import { askRedis } from './redis-wire.ts'

const COUNT = [
  "local t = redis.call('TIME')",
  'local now = t[1] * 1000 + math.floor(t[2] / 1000)',
  'local keys, lasting, held = 0, {}, {}',
  "for _, key in ipairs(redis.call('KEYS', '*')) do keys = keys + 1",
  "if redis.call('PTTL', key) < 0 then lasting[#lasting + 1] = key end",
  "if redis.call('TYPE', key).ok == 'hash' then",
  "local f = redis.call('HMGET', key, 'token', 'until', 'lease')",
  // The lease of an entry is one field. Without a token, it is over.
  "local ends = f[1] and f[2] or string.match(f[3] or '', '^%d+ (%d+) %d+ .')",
  'if now < (tonumber(ends) or 0) then held[#held + 1] = key end end end',
  'return cjson.encode({ tostring(keys), table.concat(lasting, "\\n"), table.concat(held, "\\n") })',
].join(' ')

export interface LeftBehind {
  readonly keys: number
  /** Records without a TTL. */
  readonly lasting: readonly string[]
  /** Records under a lease that is not over. */
  readonly held: readonly string[]
}

export async function leftBehind(server: RedisServer): Promise<LeftBehind> {
  const quoted = `"${COUNT.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
  const [keys = '', lasting = '', held = ''] = JSON.parse(
    await askRedis(server, `EVAL ${quoted} 0`, 30_000),
  ) as string[]
  const lines = (text: string) => text.split('\n').filter((line) => line !== '')
  return { keys: Number(keys), lasting: lines(lasting).sort(), held: lines(held).sort() }
}
