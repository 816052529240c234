import { findRedis } from '../harness/find-redis.ts'
import { startRedis } from '../harness/redis-server.ts'
import { makeScenario } from './make-scenario.ts'
import { runScenario } from './run-scenario.ts'

export async function main([
  store = 'memory',
  from = '1',
  count = '40',
]: string[]): Promise<number> {
  const redis =
    store === 'redis' ? await startRedis({ source: (await findRedis()).source }) : undefined
  const hist = new Map<string, number>()
  for (let seed = Number(from); seed < Number(from) + Number(count); seed++) {
    const s = makeScenario(seed, { store: store as 'memory' })
    const t = performance.now()
    const o = await runScenario(s, redis)
    const ms = performance.now() - t
    const stuck = o.exchanges.filter((e) => e.reply === 'stuck')
    if (ms > 700 || stuck.length > 0)
      console.log(
        seed,
        s.framework,
        ms | 0,
        'ms',
        s.steps.map((x) => x.event).join(),
        JSON.stringify(stuck.map((e) => [e.step, e.request])),
      )
    for (const { reply, request } of o.exchanges) {
      const cs =
        typeof reply === 'string'
          ? reply
          : String(reply.headers['cache-status'] ?? `none ${reply.status}`)
      const about = s.routes[request.route]?.about ? 'P ' : '. '
      const k = about + cs.replace(/ttl=-?\d+/, 'ttl').replace(/fwd-status=\d+/, '')
      hist.set(k, (hist.get(k) ?? 0) + 1)
    }
  }
  for (const [k, n] of [...hist].sort((a, b) => b[1] - a[1]).slice(0, 45)) console.log(n, k)
  await redis?.stop()
  return 0
}
