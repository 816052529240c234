// The AsyncLocalStorage in which OpenTelemetry keeps its active context. A span that is bound to it
// is the parent of all spans that the handler starts.

import { AsyncLocalStorage } from 'node:async_hooks'
import { type Context, context } from '@opentelemetry/api'

/**
 * Undefined if no context manager is registered, or not one on AsyncLocalStorage. OpenTelemetry
 * has no public access to it yet (open-telemetry/opentelemetry-js#6088).
 */
export function contextStorage(): AsyncLocalStorage<Context> | undefined {
  const api = context as unknown as {
    _getContextManager?(): { readonly _asyncLocalStorage?: unknown }
  }
  const storage = api._getContextManager?.()._asyncLocalStorage
  return storage instanceof AsyncLocalStorage ? storage : undefined
}
