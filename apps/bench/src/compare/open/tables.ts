// Tables of the scenarios, in Markdown.
import { paragraph, table } from '../lib/markdown.ts'
import { openPeers } from './peers.ts'
import type { OpenRow } from './run-open.ts'
import { scenarios } from './scenarios.ts'

export const openTables = (rows: readonly OpenRow[]): string =>
  scenarios
    .map(({ id, title, story }) => {
      const shown = rows.filter(({ scenario }) => scenario === id)
      const sentences = paragraph(`${story[0]?.toUpperCase()}${story.slice(1)}.`)
      return `### ${title}\n\n${sentences}\n\n${openTable(shown)}`
    })
    .join('\n\n')

const openTable = (rows: readonly OpenRow[]): string =>
  table(
    ['cache', 'requests', 'origin calls', 'spread', 'failed', 'p50 ms', 'p99 ms', 'p999 ms'],
    rows.map(({ peer, requests, originCalls: { median, min, max }, failed, latencyMs }) => [
      openPeers.find(({ id }) => id === peer)?.name ?? peer,
      String(requests),
      String(median),
      `${min}–${max}`,
      `${(failed * 100).toFixed(1)} %`,
      latencyMs.p50.toFixed(1),
      latencyMs.p99.toFixed(0),
      latencyMs.p999.toFixed(0),
    ]),
  )
