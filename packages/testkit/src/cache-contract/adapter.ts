// The interface that an author of an adapter implements for the contract: a small app on its
// framework.
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

/** The response of a handler. Defaults: `status` 200, no `headers`, an empty `body`. */
export interface Says {
  readonly status?: number
  readonly headers?: Record<string, string | string[]>
  /** A stream is sent as the framework sends streams. If it breaks off, so does the transfer. */
  readonly body?: string | Buffer | Readable
}

/**
 * A handler of the app. It may write to the raw response, and then resolves with `undefined`. The
 * framework handles the errors it throws.
 */
export type Handler = (
  seen: Seen,
  res: ServerResponse,
) => Says | undefined | Promise<Says | undefined>

/** A layer in front of the cache. */
export type Outside = (res: ServerResponse, next: () => unknown) => unknown

/** Options with the same meaning in every framework. */
export type CommonCacheOptions = Omit<
  CacheOptions<never>,
  'key' | 'identity' | 'bypass' | 'tags' | 'invalidateOn'
> & { key?: () => string; tags?: readonly string[] }

/** A server that listens on 127.0.0.1 until it is disposed of. */
export interface RunningApp extends AsyncDisposable {
  readonly url: string
}

/** A framework with `stampedeCache`, as its contract needs it. */
export interface CacheAdapter {
  readonly name: string
  /**
   * Whether a refresh runs through the layers outside the cache. False for a front, which has no
   * such layers.
   */
  readonly refreshesOutside: boolean
  /** Whether the framework writes a response after all layers have returned, as Koa does. */
  readonly writesLast: boolean
  /**
   * Whether the framework never ends the response of a stream that fails, even without a cache.
   * Default: false.
   */
  readonly leavesBrokenStreams?: boolean
  /**
   * Whether the framework itself destroys the stream it sends when the client leaves. Default:
   * false.
   */
  readonly endsStreamOfLeaver?: boolean
  /**
   * Starts an app with the layers `outside`, the caches, and the handler. `options` is a list if
   * the app has several caches or none.
   */
  start(
    options: CommonCacheOptions | readonly CommonCacheOptions[],
    handler: Handler,
    outside?: Outside,
  ): Promise<RunningApp>
  /**
   * Starts an app with a route for each way to respond in this framework. A route sends the same
   * bytes every time.
   */
  startWays(options: object): Promise<RunningApp & { readonly ways: readonly string[] }>
}
