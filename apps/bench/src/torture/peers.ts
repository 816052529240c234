// The compared caches in the order of the columns. The page has their set-up.
import type { TablePeer } from '../lib/verdict-table.ts'
import type { Instance, Open, Settings } from './peer.ts'

export interface Peer extends TablePeer {
  readonly load: () => Promise<{ readonly caches: Readonly<Record<string, Open>> }>
}

const onIoredis = { load: () => import('./peers/ioredis.ts') }
const onNodeRedis = { load: () => import('./peers/node-redis.ts') }

const T2 = 'It has no tags.'
const T9 = 'It serves no stale values.'
const noBus = { T6: 'It has no bus, so a copy in memory stays until its TTL ends.' }
const noSync = { T6: 'This set-up has no bus. See the column before.' }
const noMemory = { T6: 'It has no memory tier. Every call asks Redis.' }

export const peers: readonly Peer[] = [
  { id: 'stampede', name: 'Stampede', ...onIoredis },
  { id: 'bentocache', name: 'bentocache', ...onIoredis },
  { id: 'cacheable', name: 'cacheable', notSupported: { T9 }, ...onNodeRedis },
  {
    id: 'cacheable-non-blocking',
    name: 'cacheable, non-blocking',
    notSupported: { T9, ...noSync },
    ...onNodeRedis,
  },
  { id: 'cache-manager', name: 'cache-manager', notSupported: { T2, ...noBus }, ...onNodeRedis },
  { id: 'cachified', name: 'cachified', notSupported: { T2, ...noMemory }, ...onNodeRedis },
  { id: 'async-cache-dedupe', name: 'async-cache-dedupe', notSupported: noMemory, ...onIoredis },
  { id: 'layered-loader', name: 'layered-loader', ...onIoredis },
  { id: 'ocache', name: 'ocache', notSupported: { T2, ...noBus }, ...onIoredis },
]

export async function openPeer(id: string, settings: Settings): Promise<Instance> {
  const open = (await peers.find((each) => each.id === id)?.load())?.caches[id]
  if (open === undefined) throw new Error(`no cache named ${id}`)
  return open(settings)
}
