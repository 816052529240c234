// One scenario as data: an app with caches and layers in some order, its routes, the people, and what they send
// when. It is made from a seed alone, and printed when it fails.

import type { AnswerSpec } from './answer-spec.ts'
import type { Channel, Person } from './people.ts'
import type { CacheSpec } from './rules.ts'

export const FRAMEWORKS = ['express5', 'express4', 'koa3', 'koa2', 'node'] as const
/** A scenario is on one of the others unless this one is asked for: each seed is what it was. */
export const PLATFORMS = [...FRAMEWORKS, 'front'] as const
export type FrameworkName = (typeof PLATFORMS)[number]
/** HTTP/1 in the clear or over TLS, or HTTP/2. */
export type Wire = 'http' | 'https' | 'http2'
export type StoreName = 'memory' | 'redis'

/**
 * When a session sets its cookie: before the app runs, after it (Koa; elsewhere as `head`), while the head is
 * written, or in the arguments of writeHead.
 */
export type SessionWay = 'early' | 'after' | 'head' | 'args'

/** A layer acts before what comes after it in the list (`early`), or on the way back (`late`). */
export type LayerSpec =
  | { readonly kind: 'cache'; readonly options: CacheSpec; readonly at: readonly number[] | 'all' }
  /** Sets a cookie of the caller's on some routes. */
  | {
      readonly kind: 'session'
      readonly how: SessionWay
      readonly at: readonly number[]
      /** Only for those whom it knows. */
      readonly known: boolean
    }
  /** Puts the caller's name on every answer; only in front of all caches, where that is allowed. */
  | { readonly kind: 'caller'; readonly when: 'early' | 'late' }
  | { readonly kind: 'cors'; readonly varies: boolean }
  | { readonly kind: 'gzip'; readonly varies: boolean }
  /** Puts what `X-Place` says into the URL; only in front of all caches. */
  | { readonly kind: 'rewrite' }
  | { readonly kind: 'cookies' }
  | { readonly kind: 'conditional' }
  /** Refuses some people, with an answer about them. */
  | { readonly kind: 'auth'; readonly denies: readonly number[]; readonly status: number }

export interface RouteSpec {
  /** Given in turn, one each run of the handler. */
  readonly answers: readonly AnswerSpec[]
  /** What its URL carries. */
  readonly about: Channel | undefined
}

/**
 * `fails`: the origin answers once, to one person, and fails from then on: what may stand in for the error, and for whom? `asks`: what is
 * stored is soon stale, and kept to be asked about.
 */
export type Mood = 'fails' | 'asks' | undefined

export interface RequestSpec {
  readonly who: number
  readonly route: number
  /** Which of the two processes; they are one with the memory store. */
  readonly server: number
  readonly method: 'GET' | 'HEAD' | 'POST'
  /** The channels on which the caller says who it is. */
  readonly carries: readonly Channel[]
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  /** The client leaves after this long. */
  readonly abortMs: number | undefined
}

/** What a purge is of; `caller`: the tag of whoever asked. */
export const PURGE_KINDS = ['key', 'path', 'host', 'route', 'tag', 'caller', 'all'] as const
export type PurgeKind = (typeof PURGE_KINDS)[number]

export interface StepSpec {
  /** Sent at the same time. */
  readonly requests: readonly RequestSpec[]
  /** Time that passes before, in milliseconds. */
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
