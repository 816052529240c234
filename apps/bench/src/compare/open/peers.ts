// Caches in the scenarios: Stampede as a middleware, the others in a handler as for
// docs/torture.md.
import { peers as torturePeers } from '../../torture/peers.ts'
import { type OpenPeer, type OpenSettings, sending } from './peer.ts'
import { stampedeHandlers } from './stampede.ts'

const COMPARED = ['bentocache', 'cacheable', 'async-cache-dedupe', 'layered-loader']

export const openPeers: readonly OpenPeer[] = [
  {
    id: 'stampede',
    name: 'Stampede',
    packages: ['@stampede/express', '@stampede/redis', 'ioredis'],
    open: stampedeHandlers,
  },
  ...torturePeers
    .filter(({ id }) => COMPARED.includes(id))
    .map(({ load, ...peer }) => ({
      ...peer,
      async open(settings: OpenSettings) {
        const { open } = await load()
        const cache = await open({ ...settings, tags: [], client: 'guarded' })
        return [sending((key) => cache.get(key))]
      },
    })),
]
