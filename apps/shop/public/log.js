// The last responses, newest first, in a table that has all its rows from the start.

import { duration, euros } from './format.js'

const ROWS = 8

/** @param {HTMLTableSectionElement} body */
export function createLog(body) {
  const startedAt = performance.now()
  const responses = []
  const rows = Array.from({ length: ROWS }, () => body.insertRow())
  for (const row of rows) for (let i = 0; i < 5; i++) row.insertCell().textContent = '\u00a0'

  const render = () => {
    responses.slice(0, ROWS).forEach((response, index) => {
      const [at, kind, age, took, price] = rows[index].cells
      const before = responses[index + 1]
      at.textContent = `${((response.at - startedAt) / 1000).toFixed(1)} s`
      kind.textContent = response.kind
      kind.dataset.kind = response.kind
      age.textContent = response.age ?? '\u2013'
      took.textContent = duration(response.tookMs)
      price.textContent = response.priceCents === undefined ? '\u2013' : euros(response.priceCents)
      const changed =
        before !== undefined &&
        before.id === response.id &&
        before.priceCents !== response.priceCents
      price.classList.toggle('changed', changed)
    })
  }

  return {
    /** @param {import('./api.js').Reply} reply @param {string} outcome */
    add({ status, body, age, tookMs }, outcome) {
      const { id, priceCents } = body
      const kind = status === 200 ? outcome : String(status)
      responses.unshift({ at: performance.now(), kind, age, tookMs, id, priceCents })
      // One more response than is shown is kept, to mark a price change in the oldest row.
      responses.length = Math.min(responses.length, ROWS + 1)
      render()
    },
  }
}
