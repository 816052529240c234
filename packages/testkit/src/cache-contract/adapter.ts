// The types of an adapter for the cache contract: a small app on its framework.
import type { ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { CacheOptions } from '@stampede/core'

/** The request as the handler sees it. */
export interface Seen {
  readonly path: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly query: string
}

/** The response of a handler. Defaults: status 200, no headers, an empty body. */
export interface Says {
  readonly status?: number
  readonly headers?: Record<string, string | string[]>
  /** The framework sends a stream in its own way. If the stream fails, the transfer is cut. */
  readonly body?: string | Buffer | Readable
}

/**
 * A handler of the app. If it writes to the raw response itself, it resolves with `undefined`. The
 * framework handles thrown errors.
 */
export type Handler = (
  seen: Seen,
  res: ServerResponse,
) => Says | undefined | Promise<Says | undefined>

/** A layer in front of the cache. */
export type Outside = (res: ServerResponse, next: () => unknown) => unknown

/** Options that mean the same in every framework. */
export type CommonCacheOptions = Omit<
  CacheOptions<never>,
  'key' | 'identity' | 'bypass' | 'tags' | 'invalidateOn'
> & { key?: () => string; tags?: readonly string[] }

/** A server that listens on 127.0.0.1 until it is disposed of. */
export interface RunningApp extends AsyncDisposable {
  readonly url: string
}

export interface CacheAdapter {
  readonly name: string
  /** Whether a refresh passes the layers before the cache. False for a front, which has none. */
  readonly refreshesOutside: boolean
  /** Whether the framework writes a response after all layers have returned, as Koa does. */
  readonly writesLast: boolean
  /**
   * Whether the framework never ends the response of a failed stream, even without a cache.
   * Default: false.
   */
  readonly leavesBrokenStreams?: boolean
  /**
   * Whether the framework destroys a stream that it sends when the client leaves. Default: false.
   */
  readonly endsStreamOfLeaver?: boolean
  /**
   * Starts an app with `outside`, the cache and the handler. A list of options mounts so many
   * caches.
   */
  start(
    options: CommonCacheOptions | readonly CommonCacheOptions[],
    handler: Handler,
    outside?: Outside,
  ): Promise<RunningApp>
  /**
   * Starts an app with a route for each way to respond in this framework. Each route always sends
   * the same bytes.
   */
  startWays(options: object): Promise<RunningApp & { readonly ways: readonly string[] }>
}
