// The pattern of the route that handles a request, for counters and metrics.

import type { Application, Request } from 'express'

/** A layer of a router. Express 4 and 5 have these properties, without documenting them. */
interface RouterLayer {
  readonly handle?: { readonly name: string; readonly stack?: unknown }
  readonly route?: object
  match(path: string): unknown
}

/** The part of a path that a layer matched. `pattern`: only in newer versions of Express 5. */
interface Match {
  readonly path?: string
  readonly params?: Readonly<Record<string, unknown>>
  readonly pattern?: unknown
}

/**
 * The pattern of the matched route, with that of its router. `baseUrl` has the path of the request
 * in place of a pattern, such as `/users/7`, so it must not become a label.
 */
export function routeOf(req: Request, root: (app: Application) => Application): string | undefined {
  const path: unknown = req.route?.path
  if (typeof path !== 'string') return undefined
  if (req.baseUrl === '') return path
  const app = req.app as Application | undefined
  const mount = app && mountIn(stackOf(root(app)), req.baseUrl, stackOf(app))
  return (mount ?? '/*') + path
}

/** Express 4 throws if its `router` is read. */
function stackOf(app: Application): unknown {
  const { _router } = app as { readonly _router?: { readonly stack?: unknown } }
  return (_router ?? (app.router as { readonly stack?: unknown })).stack
}

/** The pattern of the layers that lead to `rest`. `inApp`: the stack of the innermost app. */
function mountIn(stack: unknown, rest: string, inApp: unknown): string | undefined {
  if (!Array.isArray(stack)) return undefined
  const layers = (stack as readonly RouterLayer[]).filter(({ route }) => route === undefined)
  const hasRouter = ({ handle }: RouterLayer) => Array.isArray(handle?.stack)
  for (const layer of [...layers.filter(hasRouter), ...layers.filter((each) => !hasRouter(each))]) {
    const match = matchOf(layer, rest)
    if (match?.path === undefined) continue
    const own = patternOf(match)
    if (match.path === rest) return own
    const { name, stack } = layer.handle ?? {}
    const isApp = name === 'mounted_app'
    const left = rest.slice(match.path.length)
    const inner = isApp ? mountIn(inApp, left, undefined) : mountIn(stack, left, inApp)
    if (inner !== undefined) return own + inner
  }
  return undefined
}

/** `match` of older versions writes into its layer, so it gets a copy. */
function matchOf(layer: RouterLayer, path: string): Match | undefined {
  try {
    const copy = Object.create(layer) as RouterLayer & Match
    const found = copy.match(path)
    if (found === true) return copy
    return typeof found === 'object' && found !== null ? found : undefined
  } catch {
    // The path has a percent sign that this layer cannot decode.
    return undefined
  }
}

function patternOf({ path = '', params = {}, pattern }: Match): string {
  if (typeof pattern === 'string') return pattern === '/' ? '' : pattern
  const shown = decodeURIComponent
  const segments = path.split('/')
  for (const [name, value] of Object.entries(params)) {
    const texts = [value].flat().flatMap((text) => String(text).split('/'))
    const has = (segment: string) => texts.includes(shown(segment))
    // A parameter may be a part of a segment, such as `/user-:id`.
    const holds = (segment: string) => texts.some((text) => text && shown(segment).includes(text))
    const isOfParam = segments.slice(1).some(has) ? has : holds
    segments.forEach((segment, i) => {
      if (i > 0 && isOfParam(segment)) segments[i] = `:${name}`
    })
  }
  // Routers ignore the case of letters, so a client could otherwise make any number of patterns.
  return segments.map((each) => (each.startsWith(':') ? each : each.toLowerCase())).join('/')
}
