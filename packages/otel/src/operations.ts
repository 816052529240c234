// The operations with their attributes. There are no semantic conventions for caches or locks yet
// (open-telemetry/semantic-conventions#1747). So only `error.type` and the status code have names
// of the conventions, and all other names begin with `stampede.`.

import type { Attributes } from '@opentelemetry/api'
import type { TracingContexts } from '@stampede/core'

export type Channel = keyof TracingContexts
export type Context = TracingContexts[Channel]

/** An idempotency key is a secret of its client, so no span has it. */
export function showsKey(context: Context, withKey: boolean): boolean {
  return withKey && !('kind' in context)
}

/** Attributes that are known at the start, for samplers. `withKey`: whether spans have the key. */
export function startAttributes(context: Context, withKey: boolean): Attributes {
  const key = showsKey(context, withKey) ? { 'stampede.key': context.key } : {}
  if ('behind' in context) return { ...key, 'stampede.fill.background': context.behind }
  if ('kind' in context) return { ...key, 'stampede.idempotency.kind': context.kind }
  return key
}

/** Attributes that are known at the end. */
export function endAttributes(context: Context): Attributes {
  const attributes = metricAttributes(context)
  if ('reason' in context) attributes['stampede.reason'] = context.reason
  if ('status' in context) attributes['http.response.status_code'] = context.status
  if ('ended' in context) attributes['stampede.idempotency.end'] = context.ended
  // A fence counts microseconds, so it is exact as a number.
  if ('fence' in context && context.fence !== undefined)
    attributes['stampede.fence'] = Number(context.fence)
  if (context.error !== undefined) attributes['error.type'] = errorType(context.error)
  return attributes
}

/** The attributes whose values are fixed sets, so that they may be labels of a metric. */
export function metricAttributes(context: Context): Attributes {
  const { outcome = context.error === undefined ? 'unknown' : 'error' } = context
  const attributes: Attributes = { 'stampede.outcome': outcome }
  if ('tier' in context) attributes['stampede.tier'] = context.tier
  if ('behind' in context) attributes['stampede.fill.background'] = context.behind
  if ('kind' in context) attributes['stampede.idempotency.kind'] = context.kind
  if ('contended' in context) attributes['stampede.lock.contended'] = context.contended
  return attributes
}

/** The code of an error, such as `ERR_LOCK_UNAVAILABLE`, or the name of its class. */
function errorType(error: unknown): string {
  if (!(error instanceof Error)) return '_OTHER'
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : error.name
}
