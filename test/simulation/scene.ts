// Where one call of an application happens.

import type { Random } from '../fuzz/leaks/random.ts'
import type { Member } from './member.ts'
import type { Plan } from './plan.ts'
import type { World } from './world.ts'

export interface Scene {
  readonly world: World
  readonly plan: Plan
  readonly member: Member
  /** Of its own. */
  readonly random: Random
}

/** In a process that is paused meanwhile, it ends late; in one that is killed, never. */
export function sleep({ world: { kernel }, member }: Scene, ms: number): Promise<void> {
  return new Promise((resolve) => {
    kernel.after(ms, () => member.time.receive(resolve))
  })
}

/** An origin has bad times: a third of them. */
export function failShare(now: number): number {
  return Math.floor(now / 10_000) % 3 === 1 ? 0.5 : 0.05
}
