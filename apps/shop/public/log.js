// The last answers, newest first, in a table that has all its rows from the start.

import { duration, euros } from './format.js'

const ROWS = 8

/** @param {HTMLTableSectionElement} body */
export function createLog(body) {
  const startedAt = performance.now()
  const answers = []
  const rows = Array.from({ length: ROWS }, () => body.insertRow())
  for (const row of rows) for (let i = 0; i < 5; i++) row.insertCell().textContent = '\u00a0'

  const render = () => {
    answers.slice(0, ROWS).forEach((answer, index) => {
      const [at, kind, age, took, price] = rows[index].cells
      const before = answers[index + 1]
      at.textContent = `${((answer.at - startedAt) / 1000).toFixed(1)} s`
      kind.textContent = answer.kind
      kind.dataset.kind = answer.kind
      age.textContent = answer.age ?? '\u2013'
      took.textContent = duration(answer.tookMs)
      price.textContent = answer.priceCents === undefined ? '\u2013' : euros(answer.priceCents)
      const changed =
        before !== undefined && before.id === answer.id && before.priceCents !== answer.priceCents
      price.classList.toggle('changed', changed)
    })
  }

  return {
    /** @param {import('./api.js').Reply} reply @param {string} outcome */
    add({ status, body, age, tookMs }, outcome) {
      const { id, priceCents } = body
      const kind = status === 200 ? outcome : String(status)
      answers.unshift({ at: performance.now(), kind, age, tookMs, id, priceCents })
      // One more than is shown is kept, to tell whether the price in the oldest row had changed.
      answers.length = Math.min(answers.length, ROWS + 1)
      render()
    },
  }
}
