// Raises a price in the database, and asks until the shop shows the new price.

import { ask } from './api.js'
import { counted, euros } from './format.js'

const EVERY_MS = 500
/** Longer than any lifetime of a response. */
const LIMIT_MS = 90_000

/**
 * @param {string} path of the tea
 * @param {() => Promise<{ reply: any, status: { kind: string } }>} once sends and shows a request
 * @param {(text: string) => void} show
 */
export async function watchPriceChange(path, once, show) {
  await askUntilFresh(once)
  const { body: now } = await ask(`/uncached${path}`)
  const priceCents = Math.max(Math.round(now.priceCents * 1.1), now.priceCents + 1)
  await ask(path, { method: 'PUT', body: { priceCents } })
  const changedAt = performance.now()
  const change = `The price in the database went from ${euros(now.priceCents)} to ${euros(priceCents)}.`
  show(`${change} The shop still shows the old price.`)

  const seen = { fresh: 0, stale: 0 }
  while (performance.now() - changedAt < LIMIT_MS) {
    const { reply, status } = await once()
    const afterS = ((performance.now() - changedAt) / 1000).toFixed(1)
    if (reply.status !== 200) throw new Error(reply.body.detail)
    if (reply.body.priceCents === priceCents) {
      show(
        `${change} The shop showed it after ${afterS} s: ${summaryOf(seen)}, then the new price.`,
      )
      return
    }
    if (status.kind === 'stale') seen.stale++
    else seen.fresh++
    await pause()
  }
  show(`${change} The shop still shows the old price after ${LIMIT_MS / 1000} s.`)
}

/** Makes sure that the cache has a fresh response with the old price. */
async function askUntilFresh(once) {
  for (let tries = 0; tries < 20; tries++) {
    if ((await once()).status.kind !== 'stale') return
    await pause()
  }
}

function pause() {
  return new Promise((resolve) => setTimeout(resolve, EVERY_MS))
}

function summaryOf({ fresh, stale }) {
  const parts = []
  if (fresh > 0)
    parts.push(`${counted(fresh, 'fresh response', 'fresh responses')} with the old price`)
  if (stale > 0) {
    parts.push(`${counted(stale, 'stale response', 'stale responses')} during the refresh`)
  }
  return parts.length === 0 ? 'the cache had no response' : parts.join(', ')
}
