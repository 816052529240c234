// One episode from one seed: a fleet, a workload and faults for some minutes. Then everything
// heals, and nothing may be left.

import { chanceOf } from './chance.ts'
import { strike } from './faults.ts'
import type { Figures } from './figures.ts'
import { withSimulatedTimers } from './process-time.ts'
import { makeSchedule, type Setting } from './schedule.ts'
import type { Transcript } from './transcript.ts'
import type { Violation } from './violation.ts'
import { call } from './workload.ts'
import { World } from './world.ts'

export interface Outcome {
  readonly setting: Setting
  readonly steps: number
  /** When a rule was broken, or the episode ended. */
  readonly brokenAt: number
  readonly violation: Violation | undefined
  readonly transcript: Transcript
}

const SWEEP_MS = 500
/** The longest time that a call may still wait after everything healed. */
const CALM_MS = 120_000

/** Synchronous. Call it from a macrotask (`inMacrotask`). */
export function runEpisode(setting: Setting, figures: Figures): Outcome {
  return withSimulatedTimers(() => {
    const world = new World(setting.seed, figures)
    play(world, setting)
    const { kernel, judge, transcript } = world
    figures.episodes += 1
    figures.steps += kernel.steps
    figures.simulatedMs += kernel.now
    figures.commands += world.server.commands
    const { steps, now: brokenAt } = kernel
    return { setting, steps, brokenAt, violation: judge.first, transcript }
  })
}

function play(world: World, setting: Setting): void {
  const { kernel, figures } = world
  const { seed, forMs } = setting
  const { fleet, withoutL1, plan, calls, faults } = makeSchedule(setting)
  world.withoutL1 = withoutL1
  figures.mostProcesses = Math.max(figures.mostProcesses, fleet)
  for (let i = 0; i < fleet; i++) world.start()
  inTurn(kernel, calls, ({ index }) => call(world, plan, chanceOf(seed, 'call', index)))
  inTurn(kernel, faults, (each) => strike(world, each, chanceOf(seed, 'fault', each.index)))
  const sweep = () => {
    world.sweep()
    kernel.after(SWEEP_MS, sweep)
  }
  kernel.after(SWEEP_MS, sweep)
  if (!run(world, forMs)) return
  calmDown(world)
}

/** The kernel's queue has only the next one. */
function inTurn<T extends { readonly at: number }>(
  kernel: World['kernel'],
  all: readonly T[],
  begin: (each: T) => void,
  place = 0,
): void {
  const each = all[place]
  if (each === undefined) return
  kernel.after(each.at - kernel.now, () => {
    begin(each)
    inTurn(kernel, all, begin, place + 1)
  })
}

/** False: a rule was broken on the way. */
function run({ kernel, judge }: World, end: number, isOver = () => false): boolean {
  while (judge.first === undefined && !isOver() && kernel.step(end)) {}
  return judge.first === undefined
}

function calmDown(world: World): void {
  const { kernel, server, members, calls, judge } = world
  world.note('fault', 'everything heals')
  // Faults under way end by themselves: servers come back, processes are started.
  if (!run(world, kernel.now + 25_000)) return
  for (const member of members) member.heal()
  server.slowMs = 0
  if (!run(world, kernel.now + CALM_MS, () => calls.open.size === 0)) return
  // Background refreshes, pending finishes, leases that are given back: no call waits for these.
  if (!run(world, kernel.now + 30_000)) return
  for (const member of world.members) {
    const left = member.leftovers()
    if (left.length > 0) judge.fail('nothing left', `${member.name} has ${left.join(', ')}`, '')
  }
  for (const key of server.data.keys.filter((each) => each.includes('{=l:'))) {
    server.perform('inspect-lock', [key], [], (reply) => {
      const [state, , , , , queue] = reply as unknown[]
      // After the clock was set back, the lease of a dead holder ends only some time after another
      // process asks for it.
      if (String(state) !== 'HELD' || server.steppedBack) return
      judge.fail('nothing left', `${key} is held, ${queue} queue`, '')
    })
  }
  for (const member of world.members) {
    member.time.run(() => {
      void Promise.all([member.stampede.close(), member.locks.close()])
    })
  }
  if (!run(world, kernel.now + 30_000)) return
  for (const { name, time } of world.members) {
    if (time.timers > 0) judge.fail('nothing left', `${name} has ${time.timers} timers`, '')
  }
}
