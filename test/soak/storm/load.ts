// The clients of the storm: readers of pages, editors who change and purge them, and buyers. A
// buyer repeats an order until it gets a response, and then once more at another process.

import { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FleetMember } from '../../harness/fleet.ts'
import { type Answer, ask } from '../../harness/load.ts'
import { TAGS, tagOf } from './shop.ts'
import { at, type Order, type Orders, type Pages } from './truth.ts'

const PAGES = 400
const READERS = 20
const BUYERS = 8
const pathOf = (page: number): string => `/pages/${page}`

export interface Load {
  /** Responses to readers with a status other than 200. */
  readonly refused: readonly string[]
  readonly reads: number
  readonly hits: number
  readonly slowest: { readonly ms: number; readonly url: string; readonly at: number }
  /** Purges that failed and were repeated. */
  readonly purgesTriedAgain: number
  /** Sends no more requests. Resolves when all have a response. */
  stop(): Promise<void>
}

interface State {
  stopped: boolean
  readonly refused: string[]
  reads: number
  hits: number
  slowest: { ms: number; url: string; at: number }
  purgesTriedAgain: number
}

export function startLoad(members: readonly FleetMember[], pages: Pages, orders: Orders): Load {
  // Clients take turns, so that no connection is idle for long.
  const agent = new Agent({ keepAlive: true, scheduling: 'fifo' })
  const state: State = {
    stopped: false,
    refused: [],
    reads: 0,
    hits: 0,
    slowest: { ms: 0, url: '', at: 0 },
    purgesTriedAgain: 0,
  }
  const tasks = [
    ...Array.from({ length: READERS }, () => read(state, members, pages, agent)),
    ...Array.from({ length: BUYERS }, () => buy(state, members, orders, agent)),
    edit(state, members, pages),
    edit(state, members, pages),
  ]
  return Object.assign(state, {
    async stop() {
      state.stopped = true
      await Promise.all(tasks)
      agent.destroy()
    },
  })
}

async function read(
  state: State,
  members: readonly FleetMember[],
  pages: Pages,
  agent: Agent,
): Promise<void> {
  while (!state.stopped) {
    const path = pathOf(zipf())
    const sentAt = performance.now()
    const answer = await ask(oneOf(members).url + path, {}, agent)
    state.reads += 1
    if (answer.latencyMs > state.slowest.ms) {
      state.slowest = { ms: answer.latencyMs, url: answer.url, at: sentAt }
    }
    if (answer.status === 200) pages.heard(path, JSON.parse(answer.body).version, sentAt)
    else state.refused.push(`${answer.status} ${answer.error ?? answer.body.slice(0, 200)} ${path}`)
    if (/\bhit\b/.test(String(answer.headers['cache-status']))) state.hits += 1
    await sleep(40)
  }
}

async function edit(state: State, members: readonly FleetMember[], pages: Pages): Promise<void> {
  for (let n = 0; !state.stopped; n++) {
    const page = zipf()
    const isByTag = n % 2 === 0
    const tagged = Array.from({ length: PAGES / TAGS }, (_, i) => pathOf((page % TAGS) + i * TAGS))
    const paths = isByTag ? tagged : [pathOf(page)]
    const target = isByTag ? { tag: tagOf(page) } : { key: pathOf(page) }
    pages.change(paths)
    await purge(state, members, target, () => pages.now(paths))
    await sleep(150)
  }
}

/** Repeats the purge by any member until it resolves. Nothing is promised before that. */
async function purge(
  state: State,
  members: readonly FleetMember[],
  target: object,
  begin: () => () => void,
): Promise<void> {
  while (!state.stopped) {
    const resolved = begin()
    const isDone = await oneOf(members)
      .ask({ type: 'purge', target })
      .then(
        () => true,
        () => false,
      )
    if (isDone) return resolved()
    state.purgesTriedAgain += 1
    await sleep(100)
  }
}

async function buy(
  state: State,
  members: readonly FleetMember[],
  orders: Orders,
  agent: Agent,
): Promise<void> {
  while (!state.stopped) {
    const order = orders.begin()
    // Every third order is sent twice at once, to two processes.
    const first = Math.floor(Math.random() * members.length)
    const twice = Math.random() < 1 / 3
    const sent = [insist(members, first, order, agent)]
    if (twice) sent.push(insist(members, first + 1, order, agent))
    await Promise.all(sent)
    await sleep(50)
  }
}

/**
 * Repeats until there is a response, also after the storm. Then repeats once more at the next
 * process.
 */
async function insist(
  members: readonly FleetMember[],
  first: number,
  order: Order,
  agent: Agent,
): Promise<void> {
  let answered = 0
  for (let n = first; answered < 2; n++) {
    const member = members[n % members.length] as FleetMember
    const { status, body } = await send(member, order, agent)
    order.endedAt = performance.now()
    order.statuses.set(status, (order.statuses.get(status) ?? 0) + 1)
    order.story.push(`${at()} ${status} from ${member.index}`)
    if (status !== 201) {
      await sleep(100)
      continue
    }
    order.bodies.add(body)
    order.answeredAt ??= performance.now()
    answered += 1
  }
}

function send(member: FleetMember, order: Order, agent: Agent): Promise<Answer> {
  order.story.push(`${at()} sent to ${member.index}`)
  const headers = { 'idempotency-key': order.key, 'x-user': 'ada' }
  return ask(member.url + order.path, { method: 'POST', headers }, agent)
}

const oneOf = (members: readonly FleetMember[]): FleetMember =>
  members[Math.floor(Math.random() * members.length)] as FleetMember

/** The share of requests for page n is proportional to 1/(n + 1). */
function zipf(): number {
  let left = Math.random() * TOTAL
  for (let page = 0; page < PAGES; page++) {
    left -= 1 / (page + 1)
    if (left < 0) return page
  }
  return PAGES - 1
}

const TOTAL = Array.from({ length: PAGES }, (_, page) => 1 / (page + 1)).reduce((a, b) => a + b)
