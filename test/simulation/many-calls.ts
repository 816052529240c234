// Calls of getOrSetMany by the applications of an episode. Each key obeys the rules of a single
// call.

import type { DataCache } from '@stampede/core'
import { LONGEST_ORIGIN_MS, longestMs, MANY_PREFIX, STORE_BUDGET_MS, type Value } from './plan.ts'
import { failShare, type Scene, sleep } from './scene.ts'

type ManyFactory = Parameters<DataCache['getOrSetMany']>[1]
type ManyContext = Parameters<ManyFactory>[1]

export function getMany(scene: Scene): void {
  const { world, plan, member, random } = scene
  const { calls, freshness, kernel } = world
  const keys = plan.keys.filter(() => random.chance(0.6))
  if (random.chance(0.5)) keys.reverse()
  const recipe = random.pick(plan.recipes)
  const { waitMs, originTimeoutMs } = recipe
  // The rest of a call begins after the run of another process, or after waitMs.
  const runMs = Math.max(originTimeoutMs, LONGEST_ORIGIN_MS) + STORE_BUDGET_MS
  const call = calls.begin(member, `getOrSetMany ${keys}`, keys[0] ?? '', waitMs + 2 * runMs)
  const askedAt = kernel.now
  // A stale entry in place of an error counts as requested when the origin failed.
  const failedAt = new Map<string, number>()
  const cache = member.stampede.cache(MANY_PREFIX.slice(0, -1), recipe as never)
  const names = keys.map((key) => key.slice(MANY_PREFIX.length))
  const factory = (its: readonly string[], context: ManyContext) =>
    origin(scene, longestMs(recipe), its, context, (name) => failedAt.set(name, kernel.now))
  const end = (values: ReadonlyMap<string, unknown>) => {
    calls.end(call)
    for (const [name, value] of values) {
      const key = MANY_PREFIX + name
      const { version, key: its, skipped } = value as Value
      world.note(member.name, `got ${key} v${version} of ${keys.length}`)
      if (its !== key) world.judge.fail('own value', `${key} got the value of ${its}`, key)
      freshness.answered(member.name, key, failedAt.get(name) ?? askedAt, version)
      // Only calls that waited for its run get a value that was skipped.
      if (skipped === undefined) world.checkAge(member.name, key, askedAt, version)
      else if (skipped.by !== member.name || skipped.at < askedAt)
        world.judge.fail('skipped, not stored', `${key} has a value of ${skipped.by}`, key)
    }
  }
  cache
    .getOrSetMany(names, factory)
    .then(end, (error: { values?: ReadonlyMap<string, unknown> }) => end(error.values ?? new Map()))
}

async function origin(
  scene: Scene,
  livesMs: number,
  names: readonly string[],
  context: ManyContext,
  onFailed: (name: string) => void,
): Promise<Map<string, Value>> {
  const { world, plan, member, random } = scene
  const { origins, freshness, kernel, figures } = world
  const { signal, fences, previous, fail, notModified, skip } = context
  figures.origin += 1
  const runs = names.map((name) => {
    const key = MANY_PREFIX + name
    const fence = String(fences.get(name) ?? '')
    const run = origins.start(member.name, `d:=${key}`, fence, kernel.now)
    if (run !== undefined) {
      signal.addEventListener('abort', () => {
        run.isVoid = true
      })
    }
    return { name, key, run, version: freshness.version(key) }
  })
  world.note(member.name, `origin of ${names.length} keys: ${names}`)
  const failing = random.chance(failShare(kernel.now)) ? random.next() : 1
  await sleep(scene, random.pick(plan.originMs) * (0.5 + random.next() / 2))
  for (const { run } of runs) if (run !== undefined) origins.end(run)
  if (failing < 0.5) {
    for (const name of names) onFailed(name)
    throw new Error('the origin failed')
  }
  const values = new Map<string, Value>()
  for (const { name, key, version } of runs) {
    const before = previous.get(name)?.value as Value | undefined
    if (failing < 1 && random.chance(0.5)) {
      onFailed(name)
      fail(name, new Error('the row failed'))
    } else if (random.chance(0.05)) {
      skip(name)
      values.set(name, { key, version, skipped: { by: member.name, at: kernel.now } })
    } else if (random.chance(0.95)) {
      freshness.lives(key, version, livesMs, kernel.now)
      if (before?.version === version && random.chance(0.5)) notModified(name)
      else values.set(name, { key, version })
    }
  }
  return values
}
