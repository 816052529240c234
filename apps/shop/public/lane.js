// One lane of the lab: its number of queries, its requests as dots, its times and errors.

import { duration, whole } from './format.js'
import { createHerd } from './herd.js'

/** @param {HTMLElement} root */
export function createLane(root) {
  const find = (name) => root.querySelector(`[data-${name}]`)
  const herd = createHerd(find('herd'))
  const write = (name, text) => {
    find(name).textContent = text
  }
  const count = (originRuns) => {
    write('count', whole(originRuns ?? 0))
    find('count').classList.toggle('idle', originRuns === undefined)
    find('count').classList.toggle('long', originRuns >= 1000)
    write('unit', originRuns === 1 ? 'query' : 'queries')
  }
  const warn = (name, value) => {
    write(name, whole(value))
    find(name).classList.toggle('bad', value > 0)
  }
  return {
    expect(requests) {
      count(undefined)
      herd.show({ total: requests, filled: 0, answered: 0 })
      for (const name of ['p50', 'p99', 'errors', 'outdated']) {
        write(name, '\u2013')
        find(name).classList.remove('bad')
      }
      find('outdated').parentElement.hidden = true
    },
    progress({ requests, originRuns, answered }) {
      count(originRuns)
      herd.show({ total: requests, filled: originRuns, answered })
    },
    finish({ requests, originRuns, p50Ms, p99Ms, statuses, fault, outdated = 0 }) {
      count(originRuns)
      herd.show({ total: requests, filled: originRuns, answered: requests })
      write('p50', duration(p50Ms))
      write('p99', duration(p99Ms))
      warn('errors', requests - (statuses['200'] ?? 0))
      warn('outdated', outdated)
      find('outdated').parentElement.hidden = fault !== 'purge'
    },
  }
}
