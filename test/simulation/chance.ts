// Chance of its own for each call, fault and process of an episode, so that leaving one out changes nothing for the others.

import { type Random, randomFrom } from '../fuzz/leaks/random.ts'

/** The same for the same three, whatever else there is. */
export function chanceOf(
  seed: number,
  what: 'schedule' | 'call' | 'fault' | 'process' | 'without-l1',
  index: number,
): Random {
  let mixed = seed
  for (let i = 0; i < what.length; i++) mixed = Math.imul(mixed ^ what.charCodeAt(i), 0x01000193)
  return randomFrom(Math.imul(mixed ^ index, 0x9e3779b1) ^ (mixed >>> 15))
}

/** Times between what happens at random, so often on average. */
export function exponential(random: Random, meanMs: number): number {
  return -Math.log(1 - random.next()) * meanMs
}
