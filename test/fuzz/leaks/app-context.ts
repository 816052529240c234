// State that the apps of one scenario share: people, routes, run counts of handlers, and the
// callbacks of the caches.

import type { CacheOptions, Stampede } from '@stampede/core'
import type { Answer, AnswerSpec, Asker } from './answer-spec.ts'
import { resolve } from './answers.ts'
import {
  anyPerson,
  type Channel,
  type Person,
  personOn,
  type Received,
  saidOn,
  targetOf,
} from './people.ts'
import type { CacheSpec } from './rules.ts'
import type { Scenario } from './scenario.ts'
import { notModified } from './unchanged.ts'

export interface AppContext {
  readonly scenario: Scenario
  readonly stampede: Stampede
  /** Handler runs by route, over all processes. */
  readonly runs: number[]
  /** Return values of `key` callbacks, for purges. */
  readonly keys: Set<string>
  /** How often each shield kept a response about one person from others. */
  readonly shields: Map<string, number>
}

export interface Told {
  readonly answer: Answer
  readonly delayMs: number
  readonly aborts: AnswerSpec['aborts']
}

/** The handler's response to this request. `undefined`: no such route. */
export function tell(context: AppContext, received: Received): Told | undefined {
  const { scenario, runs, shields } = context
  const route = routeOf(received)
  const { about, answers } = scenario.routes[route] ?? { answers: [] }
  if (answers.length === 0) return undefined
  const run = runs[route] ?? 0
  runs[route] = run + 1
  const spec = answers[run % answers.length]
  if (spec === undefined) return undefined
  const person = about && personOn(scenario.people, received, about)
  if (person) shields.set(spec.shield, (shields.get(spec.shield) ?? 0) + 1)
  const asker = askerOf(context, received, person)
  const whole = resolve(spec, route, asker)
  const extraFor =
    spec.unchanged?.extra && personOn(scenario.people, received, spec.unchanged.extra.about)
  const short = notModified(spec, whole, { ...asker, person: extraFor ?? person }, received.headers)
  if (short !== undefined) shields.set('304', (shields.get('304') ?? 0) + 1)
  return { answer: short ?? whole, delayMs: spec.delayMs, aborts: spec.aborts }
}

/**
 * Whether the route names the person in the request body, so that the handler must read it first.
 */
export function readsBody({ scenario }: AppContext, received: Received): boolean {
  const { about, answers } = scenario.routes[routeOf(received)] ?? { answers: [] }
  return about === 'body' || answers.some((each) => each.unchanged?.extra?.about === 'body')
}

function askerOf(context: AppContext, received: Received, person: Person | undefined): Asker {
  const { people } = context.scenario
  const { headers } = received
  return {
    person,
    rank: person === undefined ? 0 : 1 + people.indexOf(person),
    caller: secretOf(context, received),
    origin: saidOn(received, 'origin'),
    host: saidOn(received, 'x-forwarded-host'),
    asks: headers['if-none-match'] !== undefined || headers['if-modified-since'] !== undefined,
  }
}

export function routeOf(received: Received): number {
  return Number(/^\/r(\d+)\//.exec(targetOf(received))?.[1] ?? -1)
}

/** The secret of the caller, for layers that greet all callers. */
export function secretOf({ scenario }: AppContext, received: Received): string {
  return anyPerson(scenario.people, received)?.secret ?? 'nobody'
}

export function cacheOptions<Native extends Received>(
  context: AppContext,
  spec: CacheSpec,
): CacheOptions<Native> {
  const { key, identity, bypass, tags, invalidateOn, ...plain } = spec
  const options: CacheOptions<Native> = { ...plain, stampede: context.stampede }
  const { people } = context.scenario
  if (tags) options.tags = tagsFor(context, tags)
  if (invalidateOn)
    options.invalidateOn = invalidateOn === 'tags' ? { tags: ['shop'] } : invalidateOn
  if (identity) options.identity = (received) => callerText(context, received, identity)
  if (bypass) {
    options.bypass = (received) => bypass.some((each) => personOn(people, received, each))
  }
  if (key) {
    options.key = (received) => {
      const path = routeOf(received)
      const text = `r${path}\0${callerText(context, received, key)}`
      context.keys.add(text)
      return text
    }
  }
  return options
}

function tagsFor(
  context: AppContext,
  rule: 'fixed' | 'route' | 'caller',
): readonly string[] | ((received: Received) => readonly string[]) {
  if (rule === 'fixed') return ['shop']
  if (rule === 'route') return (received) => ['shop', `route:${routeOf(received)}`]
  return (received) => [secretOf(context, received)]
}

/** With one channel, the bare identity of the person, including unusual characters. */
function callerText(
  { scenario }: AppContext,
  received: Received,
  channels: readonly Channel[],
): string {
  const [only] = channels
  if (channels.length === 1 && only !== undefined) {
    return personOn(scenario.people, received, only)?.identity ?? ''
  }
  return JSON.stringify(channels.map((channel) => saidOn(received, channel) ?? null))
}
