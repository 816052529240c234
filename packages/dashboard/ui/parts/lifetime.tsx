// The life of a record as a bar: fresh, served stale while refreshed, kept for errors, deleted.

import type { KeyView } from '../../src/key-page.ts'
import { dateTime, duration } from '../format.ts'

interface LifetimeProps {
  readonly record: NonNullable<KeyView['record']>
  readonly at: number
  readonly hasEntry: boolean
}

export function Lifetime({ record, at, hasEntry }: LifetimeProps) {
  if (!hasEntry) {
    return <p>The record has no entry. It is deleted in {duration(record.deletedInMs)}.</p>
  }
  const { ageMs, freshForMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs } = record
  const ttlMs = ageMs + freshForMs
  const lastMs = Math.max(staleWhileRevalidateMs, staleIfErrorMs, keepMs)
  const wholeMs = ttlMs + lastMs
  const share = (ms: number): string => `${(100 * ms) / Math.max(1, wholeMs)}%`
  const state = stateOf(record)
  return (
    <div class="life">
      <p class={`life-state ${state.class}`}>{state.text}</p>
      <div class="life-track" aria-hidden="true">
        <span class="life-fresh" style={{ width: share(Math.max(0, ttlMs)) }} />
        <span class="life-stale" style={{ width: share(staleWhileRevalidateMs) }} />
        <span class="life-now" style={{ left: share(Math.min(ageMs, wholeMs)) }} />
      </div>
      <ul class="legend" aria-hidden="true">
        <li data-colour="leaf">fresh</li>
        {staleWhileRevalidateMs > 0 && <li data-colour="amber">served stale</li>}
        <li data-colour="now">now</li>
      </ul>
      <dl class="facts">
        <div>
          <dt>Since</dt>
          <dd>
            {dateTime(at - ageMs)}, {duration(ageMs)} ago
          </dd>
        </div>
        <div>
          <dt>Fresh until</dt>
          <dd>{dateTime(at + freshForMs)}</dd>
        </div>
        {staleWhileRevalidateMs > 0 && (
          <div>
            <dt>Served stale until</dt>
            <dd>{dateTime(at + freshForMs + staleWhileRevalidateMs)}, while it is refreshed</dd>
          </div>
        )}
        {staleIfErrorMs > 0 && (
          <div>
            <dt>For errors until</dt>
            <dd>{dateTime(at + freshForMs + staleIfErrorMs)}</dd>
          </div>
        )}
        <div>
          <dt>Deleted</dt>
          <dd>
            {dateTime(at + record.deletedInMs)}, in {duration(record.deletedInMs)}
          </dd>
        </div>
      </dl>
    </div>
  )
}

function stateOf(record: LifetimeProps['record']): { text: string; class: string } {
  const { freshForMs, staleWhileRevalidateMs, staleIfErrorMs } = record
  if (freshForMs > 0) return { text: `Fresh for ${duration(freshForMs)}`, class: 'leaf' }
  const staleMs = -freshForMs
  if (staleMs < staleWhileRevalidateMs) {
    return { text: `Stale for ${duration(staleMs)}, served while it is refreshed`, class: 'amber' }
  }
  if (staleMs < staleIfErrorMs) {
    return { text: `Stale for ${duration(staleMs)}, served if the origin fails`, class: 'amber' }
  }
  return { text: `Expired ${duration(staleMs)} ago`, class: 'seal' }
}
