// The subjects of the storm: four processes on Sentinels, the first behind a proxy to each server,
// and their shop.

import { type FleetMember, startFleet } from '../../harness/fleet.ts'
import { type SentinelBench, startSentinels } from '../../harness/redis-sentinel.ts'
import { startProxy, type TcpProxy } from '../../harness/tcp-proxy.ts'
import { openShop, type Shop } from './shop.ts'
import { Orders, Pages } from './truth.ts'
import { NEVER_MS } from './weather.ts'

type Options = NonNullable<Parameters<typeof startSentinels>[0]>

/** Acknowledged writes are on disk when a server is killed, and a replica is in sync at once. */
const DURABLE = [
  '--appendonly',
  'yes',
  '--appendfsync',
  'always',
  '--repl-diskless-sync-delay',
  '0',
]

export interface StormFleet extends AsyncDisposable {
  readonly bench: SentinelBench
  readonly shop: Shop
  readonly pages: Pages
  readonly orders: Orders
  readonly members: readonly FleetMember[]
  readonly proxies: readonly TcpProxy[]
}

/** `cache`: options of stampedeCache. */
export async function startStormFleet(
  source: Options['source'],
  cache: object,
): Promise<StormFleet> {
  const open: AsyncDisposable[] = []
  const close = async () => {
    for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]()
  }
  const keep = <T extends AsyncDisposable>(each: T): T => {
    open.push(each)
    return each
  }
  const [pages, orders] = [new Pages(), new Orders()]
  try {
    const given = source === undefined ? {} : { source }
    const bench = keep(await startSentinels({ ...given, downAfterMs: NEVER_MS, args: DURABLE }))
    const shop = keep(await openShop(pages, orders))
    const { proxies, nat } = await proxiesTo(bench, keep)
    const fleet = keep(
      await startFleet({
        size: 4,
        entry: new URL('../../harness/servers/storm-app.mjs', import.meta.url),
        env: {
          ORIGIN_URL: shop.url,
          SENTINELS: JSON.stringify(bench.sentinels),
          NAT: JSON.stringify([nat]),
          CACHE: JSON.stringify(cache),
        },
      }),
    )
    const { members } = fleet
    return { bench, shop, pages, orders, members, proxies, [Symbol.asyncDispose]: close }
  } catch (error) {
    await close()
    throw error
  }
}

/** One proxy for each server. `nat` makes clients take the proxies for the servers. */
async function proxiesTo(bench: SentinelBench, keep: (proxy: TcpProxy) => TcpProxy) {
  const proxies: TcpProxy[] = []
  const nat: Record<string, { host: string; port: number }> = {}
  for (const { host, port } of [bench.master, bench.replica]) {
    const proxy = keep(await startProxy(port, host))
    proxies.push(proxy)
    nat[`${host}:${port}`] = { host: '127.0.0.1', port: proxy.port }
  }
  return { proxies, nat }
}
