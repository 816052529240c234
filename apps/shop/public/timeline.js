// The timeline of a run as a drawing: a row for each process, one for Redis and one for the
// database. The list below it has the same in words.

import { duration } from './format.js'
import { storyOf } from './story.js'
import { modelOf } from './timeline-model.js'

const SVG = 'http://www.w3.org/2000/svg'
const svg = document.querySelector('#timeline-drawing')
const list = document.querySelector('#timeline-story')
const LABEL = 20
const BAR = 22
const ROW = LABEL + BAR + 12
const AXIS = 26
const DRAW_MS = 100
const TOP = 6
const STATES = { up: 'up', frozen: 'frozen', down: 'killed', starting: 'starting' }
/** Steps of the axis in ms. */
const STEPS = [100, 250, 500, 1000, 2500]

/** @param {number} processes */
export function createTimeline(processes) {
  let events = []
  let states = []
  let isLive = false
  let isDrawn = true

  const draw = () => {
    isDrawn = true
    render(modelOf(events, processes), states, isLive)
  }
  // Ten drawings a second: more would take CPU time from the processes that are measured.
  const drawSoon = () => {
    if (isDrawn) setTimeout(draw, DRAW_MS)
    isDrawn = false
  }
  new ResizeObserver(drawSoon).observe(svg.parentElement)

  return {
    begin() {
      events = []
      isLive = true
      list.replaceChildren()
      drawSoon()
    },
    add(event) {
      if (!isLive) return
      events.push(event)
      drawSoon()
    },
    finish(all) {
      events = all
      isLive = false
      const model = modelOf(all, processes)
      const lines = storyOf(model.events)
      list.replaceChildren(...lines.map(sentence))
      svg.setAttribute('aria-label', `Timeline. ${lines.map(({ text }) => text).join('. ')}.`)
      drawSoon()
    },
    showStates(next) {
      states = next
      drawSoon()
    },
  }
}

function sentence({ atMs, text }) {
  const item = document.createElement('li')
  const time = document.createElement('span')
  time.textContent = duration(atMs)
  item.append(time, ` ${text}`)
  return item
}

function render(model, states, isLive) {
  const width = svg.parentElement.clientWidth
  if (width === 0) return
  const rows = [
    ...model.rows.map((row, i) => ({ ...row, name: `Process ${i + 1}`, note: noteOf(states[i]) })),
    { ...model.redis, name: 'Redis', note: '' },
    { ...model.database, name: 'Database', note: '' },
  ]
  const height = TOP + rows.length * ROW + AXIS
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`)
  svg.setAttribute('height', String(height))
  const endMs = Math.max(model.endMs * 1.04, isLive ? 500 : 100)
  const x = (ms) => 1 + (ms / endMs) * (width - 12)
  svg.replaceChildren(
    patterns(),
    ...axis(endMs, x, height),
    ...rows.flatMap((row, i) => drawRow(row, TOP + i * ROW, x, endMs, width)),
    ...model.purges.flatMap((at) => purgeLine(x(at), height)),
  )
}

function noteOf(process) {
  return process === undefined ? '' : `pid ${process.pid}, ${STATES[process.state]}`
}

/** @param {any} row */
function drawRow({ name, note, spans, marks }, top, x, endMs, width) {
  const y = top + LABEL
  const covering = spans.filter(({ kind }) => COVERS.has(kind))
  const others = spans.filter(({ kind }) => !COVERS.has(kind))
  const bars = [...others, ...covering].flatMap((span) => drawSpan(span, y, x, endMs))
  // Hits come in numbers, so the other marks are drawn over them.
  const inOrder = [...marks.filter(isDot), ...marks.filter((mark) => !isDot(mark))]
  return [
    text(name, 1, top + 14, 'name'),
    ...(note === '' ? [] : [text(note, 82, top + 14, 'note')]),
    element('rect', { class: 'track', x: 1, y, width: width - 2, height: BAR }),
    ...bars,
    ...inOrder.map((mark) => MARKS[mark.kind](x(mark.at), y, mark)),
  ]
}

/** What stops a process covers its bar, except for a stripe that shows the lease below it. */
const STRIPE = 6
const COVERS = new Set(['frozen', 'down', 'cut'])

function drawSpan({ kind, from, to }, y, x, endMs) {
  const width = Math.max(x(to ?? endMs) - x(from), 2)
  if (!COVERS.has(kind)) {
    return [element('rect', { class: `span ${kind}`, x: x(from), y, width, height: BAR })]
  }
  const size = { x: x(from), y: y + STRIPE, width, height: BAR - STRIPE }
  return [
    element('rect', { class: 'cover', ...size }),
    element('rect', { class: `span ${kind}`, ...size }),
  ]
}

const isDot = ({ kind }) => kind === 'hit' || kind === 'stale'

const MIDDLE = BAR / 2

/** The drawing of each mark, on the bar that begins at `y`. */
const MARKS = {
  hit: (x, y, { count }) => dot('hit', x, y, count),
  stale: (x, y, { count }) => dot('stale', x, y, count),
  commit: (x, y) => {
    const circle = element('circle', { class: 'mark commit', cx: x, cy: y + MIDDLE, r: 8 })
    const tick = `M${x - 3.5} ${y + MIDDLE}l2.5 3 5 -6`
    return group(circle, element('path', { class: 'sign', d: tick }))
  },
  refused: (x, y) => crossed('mark refused', x, y),
  failed: (x, y) => crossed('mark failed', x, y),
  killed: (x, y) => crossed('mark killed', x, y),
  purged: (x, y) => element('path', { class: 'mark purged', d: `M${x} ${y + 4}l7 7 -7 7 -7 -7z` }),
  'store-failed': (x, y) => element('path', { class: 'tick', d: `M${x} ${y + BAR - 7}v7` }),
  // Queries of several processes at the same time stand below each other.
  query: (x, y, { process }) =>
    element('circle', {
      class: 'mark query',
      cx: x + 4,
      cy: y + 4 + ((process - 1) % 3) * 7,
      r: 4,
    }),
}

function dot(kind, x, y, count) {
  const r = Math.min(2.5 + Math.sqrt(count) * 0.6, 8)
  return element('circle', { class: `dot ${kind}`, cx: x, cy: y + MIDDLE, r })
}

function crossed(kind, x, y) {
  const circle = element('circle', { class: kind, cx: x, cy: y + MIDDLE, r: 8 })
  const cross = `M${x - 3.2} ${y + MIDDLE - 3.2}l6.4 6.4m0 -6.4l-6.4 6.4`
  return group(circle, element('path', { class: 'sign', d: cross }))
}

function purgeLine(x, height) {
  const bottom = height - AXIS
  return [
    element('path', { class: 'purge', d: `M${x} ${TOP}V${bottom}` }),
    text('purge', x + 4, TOP + 12, 'note'),
  ]
}

function axis(endMs, x, height) {
  const step = STEPS.find((each) => endMs / each <= 6) ?? 5000
  const bottom = height - AXIS
  const parts = []
  for (let ms = 0; ms <= endMs; ms += step) {
    parts.push(element('path', { class: 'grid', d: `M${x(ms)} ${TOP}V${bottom}` }))
    const isFirst = ms === 0
    const isLast = x(ms) > x(endMs) - 40
    const label = text(shortTime(ms), x(ms), bottom + 17, 'scale')
    label.setAttribute('text-anchor', isFirst ? 'start' : isLast ? 'end' : 'middle')
    parts.push(label)
  }
  return parts
}

function shortTime(ms) {
  return ms < 1000 ? `${ms} ms` : `${ms / 1000} s`
}

/** Hatches, so that colour is not the only difference. */
function patterns() {
  const defs = element('defs', {})
  for (const [id, d] of [
    ['hatch-wait', 'M0 6L6 0'],
    ['hatch-frozen', 'M0 0L6 6M0 6L6 0'],
    ['hatch-late', 'M0 3H6'],
  ]) {
    const size = { width: 6, height: 6, patternUnits: 'userSpaceOnUse' }
    const pattern = element('pattern', { id, class: id, ...size })
    pattern.append(element('path', { d }))
    defs.append(pattern)
  }
  return defs
}

function text(content, x, y, kind) {
  const node = element('text', { class: kind, x, y })
  node.textContent = content
  return node
}

function group(...parts) {
  const node = element('g', {})
  node.append(...parts)
  return node
}

function element(name, attributes) {
  const node = document.createElementNS(SVG, name)
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value))
  return node
}
