// Random numbers for each call, fault and process of an episode: leaving one out does not change
// the others.

import { type Random, randomFrom } from '../fuzz/leaks/random.ts'

/** Returns the same source for the same three arguments, independently of all other sources. */
export function chanceOf(
  seed: number,
  what: 'schedule' | 'call' | 'fault' | 'process' | 'without-l1',
  index: number,
): Random {
  let mixed = seed
  for (let i = 0; i < what.length; i++) mixed = Math.imul(mixed ^ what.charCodeAt(i), 0x01000193)
  return randomFrom(Math.imul(mixed ^ index, 0x9e3779b1) ^ (mixed >>> 15))
}

/** Random times between events, with this average frequency. */
export function exponential(random: Random, meanMs: number): number {
  return -Math.log(1 - random.next()) * meanMs
}
