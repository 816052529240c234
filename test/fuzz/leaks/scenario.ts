// One scenario as data: an app with caches and layers in some order, its routes, the people and
// their requests. It is made from a seed alone, and printed when it fails.

import type { AnswerSpec } from './answer-spec.ts'
import type { Channel, Person } from './people.ts'
import type { CacheSpec } from './rules.ts'

export const FRAMEWORKS = ['express5', 'express4', 'koa3', 'koa2', 'node'] as const
/** `front` is used only on request, so that each seed keeps its scenario. */
export const PLATFORMS = [...FRAMEWORKS, 'front'] as const
export type FrameworkName = (typeof PLATFORMS)[number]
/** HTTP/1 without TLS, HTTP/1 over TLS, or HTTP/2. */
export type Wire = 'http' | 'https' | 'http2'
export type StoreName = 'memory' | 'redis'

/**
 * When a session sets its cookie: before the app runs, after it (Koa; elsewhere as `head`), while
 * the head is written, or in the arguments of writeHead.
 */
export type SessionWay = 'early' | 'after' | 'head' | 'args'

/**
 * `early`: the layer acts before the next one in the list. `late`: it acts after the next one has
 * returned.
 */
export type LayerSpec =
  | { readonly kind: 'cache'; readonly options: CacheSpec; readonly at: readonly number[] | 'all' }
  /** Sets a cookie of the caller on some routes. */
  | {
      readonly kind: 'session'
      readonly how: SessionWay
      readonly at: readonly number[]
      /** Sets it for known people only. */
      readonly known: boolean
    }
  /**
   * Puts the caller's name on every response. It only stands in front of all caches, where that is
   * allowed.
   */
  | { readonly kind: 'caller'; readonly when: 'early' | 'late' }
  | { readonly kind: 'cors'; readonly varies: boolean }
  | { readonly kind: 'gzip'; readonly varies: boolean }
  /** Puts the value of `X-Place` into the URL. It only stands in front of all caches. */
  | { readonly kind: 'rewrite' }
  | { readonly kind: 'cookies' }
  | { readonly kind: 'conditional' }
  /** Refuses some people, with a response about them. */
  | { readonly kind: 'auth'; readonly denies: readonly number[]; readonly status: number }

export interface RouteSpec {
  /** Used in turn, one for each run of the handler. */
  readonly answers: readonly AnswerSpec[]
  /** The channel in its URL. */
  readonly about: Channel | undefined
}

/**
 * `fails`: the origin sends one response, about one person, and fails from then on. The scenario
 * shows which entry replaces the error, and for which caller. `asks`: entries are soon stale, and
 * are kept for revalidation.
 */
export type Mood = 'fails' | 'asks' | undefined

export interface RequestSpec {
  readonly who: number
  readonly route: number
  /** Which of the two processes. With the memory store both are one. */
  readonly server: number
  readonly method: 'GET' | 'HEAD' | 'POST'
  /** The channels that identify the caller. */
  readonly carries: readonly Channel[]
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  /** The client leaves after this time. */
  readonly abortMs: number | undefined
}

/** The target of a purge. `caller`: the tag of the caller. */
export const PURGE_KINDS = ['key', 'path', 'host', 'route', 'tag', 'caller', 'all'] as const
export type PurgeKind = (typeof PURGE_KINDS)[number]

export interface StepSpec {
  /** Requests that are sent at the same time. */
  readonly requests: readonly RequestSpec[]
  /** Time that passes before the requests, in milliseconds. */
  readonly waitMs: number
  /** Time that passes while the requests are under way. */
  readonly meanwhileMs: number
  /** Before the requests: a purge of some key that was used, or a fault. */
  readonly event: 'none' | 'purge' | 'soft-purge' | 'pause' | 'restart'
  readonly target: PurgeKind
}

export interface Scenario {
  readonly seed: number
  readonly framework: FrameworkName
  readonly store: StoreName
  readonly wire: Wire
  readonly people: readonly Person[]
  /** Express and Koa trust X-Forwarded-*. */
  readonly trustsProxy: boolean
  readonly layers: readonly LayerSpec[]
  readonly routes: readonly RouteSpec[]
  readonly steps: readonly StepSpec[]
}

export function cachesOf(layers: readonly LayerSpec[], route: number): CacheSpec[] {
  return layers.flatMap((layer) =>
    layer.kind === 'cache' && (layer.at === 'all' || layer.at.includes(route))
      ? [layer.options]
      : [],
  )
}
