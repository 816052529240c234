// The calls of the applications: values, changes with purges, locks and jobs, at random times in
// random processes.

import type { Attempt, FactoryContext, PurgeTarget } from '@stampede/core'
import type { Random } from '../fuzz/leaks/random.ts'
import { getMany } from './many-calls.ts'
import {
  type CallKind,
  LONGEST_ORIGIN_MS,
  LONGEST_WORK_MS,
  longestMs,
  MANY_PREFIX,
  type Plan,
  type Recipe,
  STORE_BUDGET_MS,
  tagOf,
  type Value,
} from './plan.ts'
import { failShare, type Scene, sleep } from './scene.ts'
import { visit } from './visits.ts'
import type { World } from './world.ts'

/** A call of some kind, in some process. */
export function call(world: World, plan: Plan, random: Random): void {
  const { members } = world
  if (members.length === 0) return
  const member = random.pick(members)
  const start = CALLS[pickKind(random, plan.mix)]
  world.figures.calls += 1
  const scene: Scene = { world, plan, member, random }
  member.time.receive(() => start(scene))
}

const CALLS = {
  get: (scene: Scene) => (scene.plan.many ? getMany(scene) : get(scene)),
  ...{ purge, lock, job, visit },
} as const

function pickKind(random: Random, mix: Plan['mix']): CallKind {
  const kinds = Object.entries(mix) as Array<[CallKind, number]>
  let left = random.next() * kinds.reduce((sum, [, weight]) => sum + weight, 0)
  for (const [kind, weight] of kinds) {
    left -= weight
    if (left < 0) return kind
  }
  return 'get'
}

function get(scene: Scene): void {
  const { world, plan, member, random } = scene
  const { calls, freshness, kernel } = world
  const key = random.pick(plan.keys)
  const recipe = random.pick(plan.recipes)
  const { waitMs, originTimeoutMs } = recipe
  const budgetMs = waitMs + Math.max(originTimeoutMs, LONGEST_ORIGIN_MS) + STORE_BUDGET_MS
  const call = calls.begin(member, `getOrSet ${key}`, key, budgetMs)
  const askedAt = kernel.now
  // A stale entry in place of an error counts as requested when the origin failed.
  let judgedAt = askedAt
  const factory = (context: FactoryContext<Value>) =>
    origin(scene, recipe, key, context).catch((error) => {
      judgedAt = kernel.now
      throw error
    })
  member.stampede.getOrSet<Value>(key, factory, recipe).then(
    ({ version }) => {
      calls.end(call)
      world.note(
        member.name,
        `got ${key} v${version}, asked ${(kernel.now - askedAt).toFixed(1)} ms ago`,
      )
      freshness.answered(member.name, key, judgedAt, version)
      world.checkAge(member.name, key, askedAt, version)
    },
    (error: Error) => {
      calls.end(call)
      world.note(member.name, `no ${key}: ${error.message.slice(0, 60)}`)
    },
  )
}

async function origin(
  scene: Scene,
  recipe: Recipe,
  key: string,
  context: FactoryContext<Value>,
): Promise<Value> {
  const { world, plan, member, random } = scene
  const { origins, freshness, kernel, figures } = world
  const { signal, previous } = context
  const fence = String(context.fence ?? '')
  const version = freshness.version(key)
  const isSame = previous?.value.version === version && random.chance(0.5)
  const fails = random.chance(failShare(kernel.now))
  figures.origin += 1
  const run = origins.start(member.name, `d:=${key}`, fence, kernel.now)
  world.note(member.name, `origin of ${key} says v${version}, fence ${fence || 'none'}`)
  if (run !== undefined) {
    signal.addEventListener('abort', () => {
      run.isVoid = true
    })
  }
  await sleep(scene, random.pick(plan.originMs) * (0.5 + random.next() / 2))
  if (run !== undefined) origins.end(run)
  if (fails) throw new Error('the origin failed')
  freshness.lives(key, version, longestMs(recipe), kernel.now)
  return isSame ? context.notModified() : { key, version }
}

function purge({ world, plan, member, random }: Scene): void {
  const { freshness, kernel, calls, figures } = world
  const key = random.pick(plan.keys)
  const kind = random.pick(['key', 'key', 'tag', 'tag', 'all'] as const)
  const soft = random.chance(0.2)
  const targets: Record<typeof kind, PurgeTarget> = {
    key: { key },
    tag: { tag: tagOf(key) },
    all: plan.many && random.chance(0.5) ? { cache: MANY_PREFIX.slice(0, -1) } : { all: true },
  }
  const about = plan.keys.filter((each) =>
    kind === 'key' ? each === key : kind === 'all' || tagOf(each) === tagOf(key),
  )
  const what = `purge ${JSON.stringify(targets[kind])}${soft ? ', soft' : ''}`
  const calledAt = kernel.now
  const versions = freshness.change(about)
  const call = calls.begin(member, what, key, STORE_BUDGET_MS)
  world.note(member.name, what)
  figures.purges += 1
  member.stampede.purge(targets[kind], { soft }).then(
    () => {
      calls.end(call)
      world.note(member.name, `${what} is done`)
      if (!soft) freshness.purged({ process: member.name, calledAt, versions, what }, kernel.now)
    },
    // Not acknowledged, so nothing was promised.
    () => calls.end(call),
  )
}

function lock(scene: Scene): void {
  const { world, plan, member, random } = scene
  const { lockRules, leaseEnds, kernel, calls, figures } = world
  const key = `lock${random.int(plan.lockKeys)}`
  const waitMs = random.pick([0, 200, 5_000, 20_000])
  const holdMs = random.pick([1, 20, 300, 4_000])
  const leaseMs = random.pick([200, 1_000, 5_000])
  const call = calls.begin(member, `acquire ${key}`, key, waitMs + STORE_BUDGET_MS)
  figures.locks += 1
  member.locks.acquire(key, { leaseMs, waitMs }).then(
    async (lease) => {
      calls.end(call)
      world.note(member.name, `has ${key}, fence ${lease.fence}`)
      const holder = { process: member.name, lease }
      lockRules.acquired(key, holder, world.brokenAt, kernel.now)
      const fence = String(lease.fence)
      const isOver = () => member.time.read(() => lease.remainingMs() === 0)
      leaseEnds.relies({ process: member.name, what: key, fence, isOver })
      await sleep(scene, holdMs)
      lockRules.released(key, holder)
      leaseEnds.relents(member.name, fence)
      const end = calls.begin(member, `release ${key}`, key, STORE_BUDGET_MS)
      world.note(member.name, `releases ${key}: ${await lease.release()}`)
      calls.end(end)
    },
    () => calls.end(call),
  )
}

function job(scene: Scene): void {
  const { world, member, random } = scene
  const { kernel, calls, figures } = world
  // At-least-once delivery: jobs of the last seconds come again.
  const name = `job${Math.floor(kernel.now / 4_000) + random.int(2)}-${random.int(3)}`
  const waitMs = random.pick([0, 0, 3_000])
  const options = {
    leaseMs: random.pick([300, 2_000]),
    onBusy: waitMs === 0 ? ('reject' as const) : { waitMs },
    onLeaseExpired: random.pick(['takeover', 'takeover', 'uncertain'] as const),
  }
  const budgetMs = waitMs + LONGEST_WORK_MS + STORE_BUDGET_MS
  const call = calls.begin(member, `idempotent ${name}`, name, budgetMs)
  figures.jobs += 1
  const end = () => calls.end(call)
  member.stampede.idempotent(name, (attempt) => work(scene, name, attempt), options).then(end, end)
}

async function work(scene: Scene, name: string, attempt: Attempt): Promise<string> {
  const { world, member, random } = scene
  const { jobs, leaseEnds, figures } = world
  const { fence } = attempt
  // Evaluated at each call, because the clock tells the truth even if timers are late.
  const isOver = () => member.time.read(() => attempt.signal.aborted)
  const mine = { process: member.name, fence: String(fence), isOver }
  figures.works += 1
  world.note(member.name, `works at ${name}, fence ${fence}`)
  jobs.begin(name, mine, world.brokenAt)
  leaseEnds.relies({ ...mine, what: name })
  const fails = random.chance(0.2)
  await sleep(scene, random.pick([1, 50, 700, LONGEST_WORK_MS * 0.9]))
  jobs.end(name, mine)
  leaseEnds.relents(member.name, mine.fence)
  world.note(member.name, `${fails ? 'fails at' : 'did'} ${name}`)
  if (fails) throw new Error('the work failed')
  return name
}
