// Requests of the page to its server.

import type { KeyView } from '../src/key-page.ts'
import type { LocksView } from '../src/locks-page.ts'

export interface PurgeTarget {
  readonly kind: 'key' | 'tag' | 'path' | 'route' | 'cache' | 'all'
  /** One name, or several. */
  readonly value: string | readonly string[]
  readonly host?: string | undefined
}

async function ask<T>(path: string, init?: RequestInit): Promise<T> {
  const response = await fetch(path, { ...init, signal: AbortSignal.timeout(15_000) })
  const isJson = response.headers.get('content-type')?.includes('json')
  const body = isJson ? await response.json() : {}
  if (response.ok) return body
  throw new Error(body.error ?? `the server refuses this request (HTTP ${response.status})`)
}

export const askKey = (key: string): Promise<KeyView> =>
  ask(`api/key?key=${encodeURIComponent(key)}`)

export const askLocks = (cursor: string): Promise<LocksView> =>
  ask(`api/locks?cursor=${encodeURIComponent(cursor)}`)

export function purge({ kind, value, host }: PurgeTarget, soft: boolean): Promise<unknown> {
  const name = typeof value === 'string' ? kind : `${kind}s`
  const target = kind === 'all' ? { all: true } : { [name]: value, ...(host && { host }) }
  return ask('api/purge', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Stampede-Dashboard': '1' },
    body: JSON.stringify({ ...target, soft }),
  })
}
