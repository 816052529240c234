// The options of the dashboard: types, defaults, checks.

import type { IncomingMessage } from 'node:http'
import type { Stampede } from '@stampede/core'
import { optionError, readers, readOptions } from '@stampede/core/store'
import { type Admits, type Authorize, readAuthorize } from './admission.ts'
import type { WatchedLocks } from './lock-watch.ts'

/** Options of `stampedeDashboard` and `stampedeDashboardKoa`. */
export interface DashboardOptions<Native = IncomingMessage> {
  /** The Stampede of this process, from `createStampede`. */
  stampede: Stampede
  /**
   * Decides for each request whether the dashboard answers it. It gets the request, or the context
   * of Koa. All other requests get the response that the app gives without a dashboard.
   * `'insecure-local'`: only clients on this machine, without any further check.
   */
  authorize: Authorize<Native>
  /** The locks of this process, from `createLocks`. Default: none. */
  locks?: WatchedLocks | undefined
  /**
   * Path of the dashboard, such as `/dashboard`, if the framework does not remove it from the URL.
   * Default: none, for `app.use('/dashboard', ...)`.
   */
  path?: string | undefined
  /** Whether reports have keys and URLs. `false`: they have hashes instead. Default `true`. */
  showKeys?: boolean | undefined
}

export interface DashboardConfig<Native> {
  readonly stampede: Stampede
  readonly admits: Admits<Native>
  readonly locks: WatchedLocks | undefined
  readonly path: string
  readonly showKeys: boolean
}

/** Throws `ERR_STAMPEDE_OPTION`. */
export function readDashboardOptions<Native>(
  where: string,
  options: DashboardOptions<Native>,
): DashboardConfig<Native> {
  const read = readOptions(where, options ?? {}, {
    stampede: (_where: string, value: unknown) => value as Stampede,
    authorize: readAuthorize<Native>,
    locks: readLocks,
    path: readPath,
    showKeys: readers.flag(true),
  })
  const { authorize, ...rest } = read
  return { ...rest, admits: authorize }
}

function readLocks(where: string, value: unknown): WatchedLocks | undefined {
  if (value === undefined) return undefined
  if (typeof (value as WatchedLocks | null)?.stats === 'function') return value as WatchedLocks
  throw optionError(where, value, 'pass what createLocks() returned')
}

function readPath(where: string, value: unknown): string {
  if (value === undefined) return ''
  if (typeof value === 'string' && /^(?:\/[^/?#]+)+$/.test(value)) return value
  throw optionError(where, value, "use a path without a slash at its end: '/dashboard'")
}
