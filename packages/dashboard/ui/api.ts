// Requests of the page to its server.

import type { KeyRecordView, OneKeyView, RecordsView } from '../src/idempotency-page.ts'
import type { KeyView } from '../src/key-page.ts'
import type { LocksView } from '../src/locks-page.ts'

export interface PurgeTarget {
  readonly kind: 'key' | 'tag' | 'path' | 'route' | 'cache' | 'all'
  /** One name, or several. */
  readonly value: string | readonly string[]
  readonly host?: string | undefined
}

/** The server has refused a request, and has not changed anything. */
export class Refused extends Error {}

async function ask<T>(path: string, init?: RequestInit): Promise<T> {
  const response = await fetch(path, { ...init, signal: AbortSignal.timeout(15_000) })
  const isJson = response.headers.get('content-type')?.includes('json')
  const body = isJson ? await response.json() : {}
  // After the end of a session, many apps redirect to a page for signing in.
  if (response.ok && isJson) return body
  const look = init?.method === 'POST' ? ' You may look at this page, but not change anything.' : ''
  const hint = response.ok ? ' Sign in again.' : look
  const text = `the server refuses this request (HTTP ${response.status}).${hint}`
  const Failure = response.status < 500 ? Refused : Error
  // The app may have sent JSON of its own.
  throw new Failure(typeof body?.error === 'string' ? body.error : text)
}

export const askKey = (key: string): Promise<KeyView> =>
  ask(`api/key?key=${encodeURIComponent(key)}`)

export const askLocks = (cursor: string): Promise<LocksView> =>
  ask(`api/locks?cursor=${encodeURIComponent(cursor)}`)

function post(path: string, body: object): Promise<unknown> {
  return ask(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Stampede-Dashboard': '1' },
    body: JSON.stringify(body),
  })
}

/** The key of a request, or of a job, which may have no scope. */
export type KeyRef =
  | { readonly key: string; readonly scope: string }
  | { readonly job: string; readonly scope?: string }

export const askRecords = (cursor: string): Promise<RecordsView> =>
  ask(`api/idempotency?cursor=${encodeURIComponent(cursor)}`)

/** The key is in a header field, because logs often have URLs. */
export function askRecord(key: KeyRef): Promise<OneKeyView> {
  const bytes = new TextEncoder().encode(JSON.stringify(key))
  const field = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
  return ask('api/idempotency', { headers: { 'X-Stampede-Key': field } })
}

/** Without an answer, the key is released. */
export function settle(
  key: KeyRef,
  { state, fence }: KeyRecordView,
  answer: object | undefined,
): Promise<unknown> {
  return post('api/settle', { key, seen: { state, fence }, answer: answer ?? 'release' })
}

export function purge({ kind, value, host }: PurgeTarget, soft: boolean): Promise<unknown> {
  const name = typeof value === 'string' ? kind : `${kind}s`
  const target = kind === 'all' ? { all: true } : { [name]: value, ...(host && { host }) }
  return post('api/purge', { ...target, soft })
}
