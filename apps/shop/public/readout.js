// The last response: as text, on the lifeline, and as the newest line of the log.

import { readCacheStatus } from './api.js'
import { duration, euros } from './format.js'
import { createLifeline } from './lifeline.js'
import { createLog } from './log.js'

const write = (id, text) => {
  document.querySelector(`#${id}`).textContent = text
}

/** @param {any} lifetimes as in the body of /api/lab/stats */
export function createReadout(lifetimes) {
  const lifeline = createLifeline(lifetimes)
  const log = createLog(document.querySelector('#log'))
  return {
    clear: () => lifeline.clear(),
    /** @param {string} path @param {import('./api.js').Reply} reply */
    show(path, reply) {
      const status = readCacheStatus(reply.cacheStatus)
      const tea = reply.status === 200 ? reply.body : undefined
      write('asked', `GET ${path}`)
      write('outcome', `${reply.status} in ${duration(reply.tookMs)}`)
      write('cache-status', reply.cacheStatus ?? 'none')
      write('age', reply.age === null ? 'none' : `${reply.age} s`)
      write('price', tea === undefined ? reply.body.title : euros(tea.priceCents))
      write('stock', tea === undefined ? '\u2013' : `${tea.stock} tins`)
      lifeline.show(reply.status, status)
      log.add(reply, status.kind)
      return status
    },
  }
}

/** The sentence below the readout. */
export function showStory(text, trouble = false) {
  write('story', text)
  document.querySelector('#story').classList.toggle('trouble', trouble)
}
