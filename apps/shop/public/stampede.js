// The stampede: sends requests with the cache and without, and compares the results.

import { ask } from './api.js'
import { counted, duration, whole } from './format.js'
import { createHerd } from './herd.js'
import { showHistogram } from './histogram.js'

const form = document.querySelector('#stampede-form')
const verdict = document.querySelector('#verdict')

/** @param {() => void} onDone called after each stampede */
export function startStampede(onDone) {
  const cached = createSide(document.querySelector('.side.cached'))
  const uncached = createSide(document.querySelector('.side.uncached'))
  const reset = () => {
    for (const side of [cached, uncached]) side.expect(orderOf(form).requests)
  }
  reset()
  form.addEventListener('change', reset)
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    const order = orderOf(form)
    const controls = [...form.elements]
    for (const control of controls) control.disabled = true
    try {
      reset()
      say(`Sending ${whole(order.requests)} requests with the cache ...`)
      const withCache = await fire(cached, { ...order, cached: true })
      say(`Sending ${whole(order.requests)} requests without the cache ...`)
      const without = await fire(uncached, { ...order, cached: false })
      say(compare(withCache, without))
    } catch (error) {
      say(error.message, true)
    } finally {
      for (const control of controls) control.disabled = false
      form.querySelector('button').focus({ preventScroll: true })
      onDone()
    }
  })
}

function orderOf(form) {
  const data = new FormData(form)
  return { requests: Number(data.get('requests')), path: String(data.get('path')) }
}

/** Shows the progress from the statistics until the run ends. */
async function fire(side, order) {
  let over = false
  const watch = async () => {
    while (!over) {
      await new Promise((resolve) => setTimeout(resolve, 150))
      const { body } = await ask('/api/lab/stats')
      if (!over && body.running !== null) side.progress(body.running)
    }
  }
  // If the progress cannot be read, the run goes on.
  watch().catch(() => {})
  try {
    const { body } = await ask('/api/lab/stampede', { method: 'POST', body: order })
    side.finish(body)
    return body
  } finally {
    over = true
  }
}

function compare(withCache, without) {
  const requests = counted(withCache.requests, 'request', 'requests')
  const runs = `${counted(withCache.originRuns, 'query', 'queries')} with the cache, ${whole(without.originRuns)} without`
  const slowest = `${duration(withCache.maxMs)} with the cache, ${duration(without.maxMs)} without`
  const failed = [withCache, without]
    .flatMap((run) => Object.entries(run.statuses))
    .reduce((sum, [status, count]) => (status === '200' ? sum : sum + count), 0)
  const failures = failed === 0 ? '' : ` ${counted(failed, 'request', 'requests')} failed.`
  return `${requests}: ${runs}. The slowest response took ${slowest}.${failures}`
}

function say(text, trouble = false) {
  verdict.textContent = text
  verdict.classList.toggle('trouble', trouble)
}

function createSide(root) {
  const find = (name) => root.querySelector(`[data-${name}]`)
  const herd = createHerd(find('herd'))
  const write = (name, text) => {
    find(name).textContent = text
  }
  const count = (originRuns, requests) => {
    write('count', whole(originRuns ?? 0))
    find('count').classList.toggle('idle', originRuns === undefined)
    const unit = originRuns === 1 ? 'query' : 'queries'
    write('unit', `${unit} for ${whole(requests)} requests`)
  }
  return {
    expect(requests) {
      count(undefined, requests)
      herd.show({ total: requests, filled: 0, answered: 0 })
      for (const name of ['p50', 'p99', 'max']) write(name, '\u2013')
      find('histogram').replaceChildren()
    },
    progress({ requests, originRuns, answered }) {
      count(originRuns, requests)
      herd.show({ total: requests, filled: originRuns, answered })
    },
    finish({ requests, originRuns, p50Ms, p99Ms, maxMs, cacheStatus }) {
      count(originRuns, requests)
      herd.show({ total: requests, filled: originRuns, answered: requests })
      write('p50', duration(p50Ms))
      write('p99', duration(p99Ms))
      write('max', duration(maxMs))
      const label = (kind) => (kind === 'none' ? '(no Cache-Status)' : kind)
      showHistogram(find('histogram'), cacheStatus, requests, label)
    },
  }
}
