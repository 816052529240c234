// The result of a run in two or three sentences, also for screen readers.

import { counted, duration, whole } from './format.js'

/** What the lab did beside the requests. */
const DONE = {
  none: '',
  kill: 'The process that ran the query was killed. ',
  freeze: 'The process that ran the query was frozen for longer than its lease. ',
  redis: 'Redis was frozen during all requests. ',
  bus: 'The Pub/Sub connections were cut during the query. ',
  purge: 'The price changed under load, and the page was purged. ',
  origin: 'The database failed, and the page in the caches was stale. ',
}

/** @param {string} fault @param {Record<string, any>} results by lane @param {number} processes */
export function verdictOf(fault, results, processes) {
  const { none, stampede } = results
  const perProcess = results['per-process']
  const size = processes === 1 ? '1 process' : `${processes} processes`
  const queries =
    `${whole(none.requests)} requests to ${size}: ${counted(none.originRuns, 'query', 'queries')} ` +
    `without a cache, ${perProcess ? `${whole(perProcess.originRuns)} with a cache per process, ` : ''}` +
    `${whole(stampede.originRuns)} with Stampede.`
  return [DONE[fault] + queries, detailOf(fault, results)].filter((text) => text !== '').join(' ')
}

function detailOf(fault, { none, 'per-process': perProcess, stampede }) {
  const events = stampede.events ?? []
  if (fault === 'kill' || fault === 'freeze') return takeover(events)
  if (fault === 'purge') {
    const before = `Old prices after the purge: ${whole(perProcess.outdated)} with a cache per process`
    return `${before}, ${whole(stampede.outdated)} with Stampede.`
  }
  if (fault === 'origin') {
    const stale = stampede.cacheStatus['hit (stale)'] ?? 0
    const served = `Stampede served ${counted(stale, 'stale response', 'stale responses')}`
    return `${served}. Without a cache, ${counted(none.errors, 'request', 'requests')} failed.`
  }
  if (fault === 'redis') return 'Without Redis, each process runs the query once by itself.'
  if (fault === 'bus') return 'The waiting processes connected again and looked up again.'
  return ''
}

function takeover(events) {
  const grants = events.filter(({ type }) => type === 'lease.granted')
  const stop = events.find(({ type }) => type === 'lab.killed' || type === 'lab.frozen')
  const next = grants.find(({ process }) => process !== stop?.process)
  if (stop === undefined || next === undefined) return ''
  const after = duration(next.atMs - stop.atMs)
  const refused = events.find(({ type }) => type === 'fill.fenced')
  const late =
    refused === undefined
      ? ''
      : ` The late commit of process ${refused.process} was refused, so it overwrote nothing.`
  return `Process ${next.process} took over after ${after}, when the lease had ended.${late}`
}
