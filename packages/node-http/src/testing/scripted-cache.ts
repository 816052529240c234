// For tests of the Koa adapter: a scripted core of the cache, which runs the app as the test says.

import type { createHttpCache, Exchange, OriginEnd, OriginObserver } from '@stampede/core/adapter'

export interface ScriptedCore<Native> {
  script(exchange: Exchange<Native>, cache: string): void | Promise<void>
}

/** `createHttpCache`, for `vi.mock`. The option `cacheStatus` names the cache. */
export function scriptedCache<Native>(
  core: ScriptedCore<Native>,
): (options?: { cacheStatus?: string }) => object {
  return (options) => ({
    handle: (exchange: Exchange<Native>) => core.script(exchange, options?.cacheStatus ?? ''),
    mountedIn: () => {},
    inner: ((_request, natives) => ({
      keyOf: () => '',
      config: {},
      natives,
    })) satisfies ReturnType<typeof createHttpCache>['inner'],
  })
}

export type Observer = Omit<OriginObserver, 'ended'>

export const KEEP: Observer = {
  maxBodyBytes: 1_000_000,
  onHead: () => ({
    action: 'send',
    capture: true,
    add: [['cache-status', 'S; fwd=uri-miss']],
    remove: [],
  }),
}

/** Resolves with the end of a run. */
export const endOf = <Native>(
  exchange: Exchange<Native>,
  run: 'runOrigin' | 'redispatch',
  observer: Observer = KEEP,
): Promise<OriginEnd> => new Promise((ended) => exchange[run]({ ...observer, ended }))

/** Makes core fill on each request. Collects the ends in order. */
export function fill<Native>(
  core: ScriptedCore<Native>,
  observer: Observer = KEEP,
): { ends: Array<Promise<OriginEnd>> } {
  const ends: Array<Promise<OriginEnd>> = []
  core.script = (exchange) => {
    const end = endOf(exchange, 'runOrigin', observer)
    ends.push(end)
    return end.then(() => {})
  }
  return { ends }
}
