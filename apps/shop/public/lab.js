// The lab: sends the same requests to three lanes, with a fault beside them, and shows what came
// of it.

import { ask } from './api.js'
import { connectFleet } from './fleet.js'
import { whole } from './format.js'
import { showHistogram } from './histogram.js'
import { createLane } from './lane.js'
import { createTimeline } from './timeline.js'
import { verdictOf } from './verdict.js'

const lab = document.querySelector('#lab')
const title = document.querySelector('#lab-title')
const form = document.querySelector('#lab-form')
const verdict = document.querySelector('#verdict')
const faults = [...form.querySelectorAll('button[name=fault]')]

/** Stampede comes first: its lane is short, and the one without a cache is long. */
const ORDER = ['stampede', 'per-process', 'none']
/** How the lab of one process names the lanes. */
const CACHED = { none: false, 'per-process': 'per-process', stampede: true }
/** The page before the requests, if it is in the caches already. */
const PAGE_STATES = { purge: 'warm', origin: 'stale' }
const PATH = '/api/products/7'
/** As in lab.css. */
const isNarrow = window.matchMedia('(max-width: 40rem)')
const isStill = window.matchMedia('(prefers-reduced-motion: reduce)')

const { content } = document.querySelector('#lane')
for (const lane of document.querySelectorAll('.lane')) lane.append(content.cloneNode(true))

/** @param {any} about the body of /api/lab/stats @param {() => void} onDone after each run */
export function startLab(about, onDone) {
  const fleet = about?.fleet ?? null
  const order = orderOf(about)
  const lanes = Object.fromEntries(
    order.map((name) => [name, createLane(document.querySelector(`[data-lane=${name}]`))]),
  )
  const timeline = createTimeline(fleet?.processes.length ?? 0)
  prepare(fleet)
  if (fleet !== null) connectFleet(listen(lanes, timeline))
  const reset = () => {
    for (const name of order) lanes[name].expect(requestsOf(form))
    write('#crowd', whole(requestsOf(form)))
  }
  reset()
  form.addEventListener('change', reset)

  if (about === undefined) {
    say('The lab only responds to its own machine. Open this page as localhost there.', true)
    return
  }
  let isRunning = false
  const run = async (fault) => {
    if (isRunning) return
    isRunning = true
    mark(fault, true)
    write('#page-state', PAGE_STATES[fault] ?? 'cold')
    reset()
    timeline.begin()
    try {
      const asked = { fault, requests: requestsOf(form) }
      const results = {}
      for (const lane of order) {
        const result = await runLane(lane, asked, lanes[lane], fleet)
        results[lane] = result
        if (lane === 'stampede') showStampede(result, timeline)
      }
      say(verdictOf(fault, results, fleet?.processes.length ?? 1))
    } catch (error) {
      say(error.message, true)
    } finally {
      isRunning = false
      mark(fault, false)
      onDone()
    }
  }
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    showLanes()
    void run(event.submitter?.value ?? 'none')
  })
  void run('none')
}

/** In one process, a cache per process has the same figures as Stampede, so it has no lane. */
function orderOf(about) {
  if (about === undefined || about.fleet !== null) return ORDER
  document.querySelector('[data-lane=per-process]').remove()
  return ORDER.filter((name) => name !== 'per-process')
}

/** On a narrow screen the buttons are below the lanes, so a run would not be seen. */
function showLanes() {
  if (!isNarrow.matches) return
  title.scrollIntoView({ behavior: isStill.matches ? 'auto' : 'smooth' })
}

const NAMES = {
  stampede: 'with Stampede',
  'per-process': 'with a cache per process',
  none: 'without a cache',
}

async function runLane(lane, { fault, requests }, shown, fleet) {
  if (!isStill.matches) say(`Sending ${whole(requests)} requests ${NAMES[lane]} ...`)
  const options =
    fleet === null
      ? { path: '/api/lab/stampede', body: { requests, path: PATH, cached: CACHED[lane] } }
      : { path: '/api/lab/lane', body: { lane, fault, requests } }
  const stop = fleet === null && !isStill.matches ? watchProgress(shown) : () => {}
  try {
    const { body } = await ask(options.path, { method: 'POST', body: options.body })
    shown.finish(body)
    return body
  } finally {
    stop()
  }
}

/** Shows the progress from the statistics: the lab of one process sends no events. */
function watchProgress(shown) {
  let isOver = false
  const watch = async () => {
    while (!isOver) {
      await new Promise((resolve) => setTimeout(resolve, 150))
      const { body } = await ask('/api/lab/stats')
      if (!isOver && body.running !== null) shown.progress(body.running)
    }
  }
  // If the progress cannot be read, the run goes on.
  watch().catch(() => {})
  return () => {
    isOver = true
  }
}

/** Events of the fleet while a run is on. Without motion only the end is shown. */
function listen(lanes, timeline) {
  return {
    fleet: (state) => timeline.showStates(state.processes),
    progress: (data) => {
      if (!isStill.matches) lanes[data.lane].progress(data)
    },
    event: (event) => {
      if (event.lane === 'stampede' && !isStill.matches) timeline.add(event)
    },
  }
}

function showStampede({ events, cacheStatus, requests }, timeline) {
  if (events !== undefined) timeline.finish(events)
  const label = (kind) => (kind === 'none' ? '(no Cache-Status)' : kind)
  showHistogram(document.querySelector('#statuses'), cacheStatus, requests, label)
}

/** Shows the parts that this demo has: faults need a fleet, and some of them a Redis of its own. */
function prepare(fleet) {
  document.querySelector('#one-process').hidden = fleet !== null
  document.querySelector('#timeline').hidden = fleet === null
  for (const button of faults) {
    const needsRedis = button.value === 'redis' || button.value === 'bus'
    button.hidden = button.value !== 'none' && (fleet === null || (needsRedis && !fleet.ownsRedis))
  }
  write('#fleet-size', fleet === null ? 'one process' : `${fleet.processes.length} processes`)
}

/** The buttons keep their focus during a run, so they are not `disabled`. */
function mark(fault, isRunning) {
  lab.setAttribute('aria-busy', String(isRunning))
  for (const button of faults) {
    button.setAttribute('aria-disabled', String(isRunning))
    button.toggleAttribute('data-running', isRunning && button.value === fault)
  }
}

function requestsOf(form) {
  return Number(new FormData(form).get('requests'))
}

function say(text, trouble = false) {
  verdict.textContent = text
  verdict.classList.toggle('trouble', trouble)
}

function write(selector, text) {
  document.querySelector(selector).textContent = text
}
