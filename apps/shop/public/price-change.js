// Raises a price in the database, and asks until the shop tells the new one.

import { ask } from './api.js'
import { counted, euros } from './format.js'

const EVERY_MS = 500
/** Longer than any answer is kept. */
const PATIENCE_MS = 90_000

/**
 * @param {string} path of the tea
 * @param {() => Promise<{ reply: any, status: { kind: string } }>} once asks through the cache, and shows the answer
 * @param {(text: string) => void} tell
 */
export async function watchPriceChange(path, once, tell) {
  await askUntilFresh(once)
  const { body: now } = await ask(`/uncached${path}`)
  const priceCents = Math.max(Math.round(now.priceCents * 1.1), now.priceCents + 1)
  await ask(path, { method: 'PUT', body: { priceCents } })
  const changedAt = performance.now()
  const change = `${euros(now.priceCents)} became ${euros(priceCents)} in the database.`
  tell(`${change} The shop has not noticed yet.`)

  const seen = { fresh: 0, stale: 0 }
  while (performance.now() - changedAt < PATIENCE_MS) {
    const { reply, status } = await once()
    const afterS = ((performance.now() - changedAt) / 1000).toFixed(1)
    if (reply.status !== 200) throw new Error(reply.body.detail)
    if (reply.body.priceCents === priceCents) {
      tell(`${change} It took ${afterS} s to show: ${told(seen)}, then the new price.`)
      return
    }
    if (status.kind === 'stale') seen.stale++
    else seen.fresh++
    await pause()
  }
  tell(`${change} It still does not show after ${PATIENCE_MS / 1000} s.`)
}

/** So that there is something to be told that is old, and not on its way out. */
async function askUntilFresh(once) {
  for (let tries = 0; tries < 20; tries++) {
    if ((await once()).status.kind !== 'stale') return
    await pause()
  }
}

function pause() {
  return new Promise((resolve) => setTimeout(resolve, EVERY_MS))
}

function told({ fresh, stale }) {
  const parts = []
  if (fresh > 0) parts.push(`${counted(fresh, 'fresh answer', 'fresh answers')} with the old price`)
  if (stale > 0) {
    const answers = fresh > 0 ? ['stale one', 'stale ones'] : ['stale answer', 'stale answers']
    parts.push(`${counted(stale, ...answers)} while it was refreshed`)
  }
  return parts.length === 0 ? 'nothing had been kept' : parts.join(', ')
}
