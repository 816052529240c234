// The layers of an Express app, in the order in which requests pass them, for the check of the
// mount order.

import type { MountOrder } from '@stampede/node-http/adapter'
import type { Application } from 'express'
import { stackOf } from './route-pattern.ts'

type Layer = ReturnType<Parameters<MountOrder['see']>[2]>[number]

/** A layer of a router. Express 4 and 5 have these properties, without documenting them. */
interface RouterLayer {
  readonly handle?: { readonly name: string; readonly length: number; readonly stack?: unknown }
  /** A string if the router is an app of `connect`, such as `vite.middlewares`. */
  readonly route?: Route | string
}

interface Route {
  readonly methods: Readonly<Record<string, boolean>>
  readonly stack: readonly RouterLayer[]
}

/**
 * Empty for a mounted app, because layers after it are not known, and for a router without an app.
 * `self` is missing if another function wraps the middleware.
 */
export function layersOf(
  app: Application | undefined,
  self: object,
  methods: readonly string[],
): Layer[] {
  if (app === undefined || 'parent' in app) return []
  return layersIn(stackOf(app), self, methods)
}

function layersIn(stack: unknown, self: object, methods: readonly string[]): Layer[] {
  if (!Array.isArray(stack)) return []
  return (stack as readonly RouterLayer[]).flatMap(({ handle, route }): Layer[] => {
    if (typeof route === 'object') {
      if (route.stack.some((each) => each.handle === self)) return ['self', 'other-route']
      const handled = methods.some((method) => route.methods[method.toLowerCase()])
      return [handled || route.methods._all ? 'route' : 'other-route']
    }
    if (handle === self) return ['self']
    if (Array.isArray(handle?.stack)) return layersIn(handle.stack, self, methods)
    if (handle?.name === 'mounted_app') return ['other-route']
    return handle?.length === 4 ? [] : ['middleware']
  })
}
