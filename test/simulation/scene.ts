// The setting of one call of an application: its process, key, chance and clock.

import type { Random } from '../fuzz/leaks/random.ts'
import type { Member } from './member.ts'
import type { Plan } from './plan.ts'
import type { World } from './world.ts'

export interface Scene {
  readonly world: World
  readonly plan: Plan
  readonly member: Member
  /** Random numbers of this call alone. */
  readonly random: Random
}

/** If the process is paused meanwhile, it ends late. If the process is killed, it never ends. */
export function sleep({ world: { kernel }, member }: Scene, ms: number): Promise<void> {
  return new Promise((resolve) => {
    kernel.after(ms, () => member.time.receive(resolve))
  })
}

/** The origin is slow or failing for a third of the time. */
export function failShare(now: number): number {
  return Math.floor(now / 10_000) % 3 === 1 ? 0.5 : 0.05
}
