// A fleet of cached apps, from which most tests of the cache start.
import { type AppFleet, type AppFleetOptions, startAppFleet } from './app-fleet.ts'
import { burst } from './load.ts'

export interface CachedFleetOptions extends AppFleetOptions {
  /** Options of stampedeCache. */
  readonly cache?: object
}

export interface CachedFleet extends AppFleet {
  /**
   * Sends requests until every member has used Redis once, so that connections are open and scripts
   * are loaded.
   */
  warmUp(): Promise<void>
}

export async function startCachedFleet(options: CachedFleetOptions = {}): Promise<CachedFleet> {
  const { cache = { ttlMs: 60_000 }, ...rest } = options
  const entry = new URL('./servers/cached-app.mjs', import.meta.url)
  const fleet = await startAppFleet(entry, rest, { CACHE: JSON.stringify(cache) })
  return {
    ...fleet,
    async warmUp() {
      // One member after another requests a key of its own and then a shared one: every script runs
      // everywhere.
      for (const { url, index } of fleet.members) await burst([`${url}/warm-up/${index}`], 1)
      for (const { url } of fleet.members) await burst([`${url}/warm-up/0`], 1)
      await Promise.all(fleet.members.map((member) => member.ask({ type: 'events' })))
    },
  }
}
