// What connects a process and the server, and how a command is written on it.

import * as scripts from '../../packages/redis/src/protocol/scripts.generated.ts'
import type { Random } from '../fuzz/leaks/random.ts'
import type { Figures } from './figures.ts'
import type { Kernel } from './kernel.ts'
import type { Command, SimRedis } from './sim-redis.ts'
import type { Judge } from './violation.ts'

/** How one process and the server reach each other. */
export interface Link {
  /** Nothing arrives. */
  isCut: { commands: boolean; messages: boolean }
  /** Share of replies and of messages that are lost, and of messages that come twice. */
  loss: number
  repeats: number
  /** At most, on top of the usual. */
  delayMs: number
}

/** What all connections have in common. */
export interface Net {
  readonly kernel: Kernel
  readonly server: SimRedis
  readonly random: Random
  readonly figures: Figures
  readonly judge: Judge
  /** Of this process and the server: nothing has been wrong for so long. */
  readonly isCalm: (forMs: number) => boolean
}

const NAMES = new Map(
  Object.values(scripts).flatMap(({ name, sha1, source }) => [
    [sha1, name],
    [source, name],
  ]),
)

/** EVALSHA or EVAL: known by its digest, or by its text. */
export function scriptCommand([source, count, ...rest]: readonly unknown[]): Command {
  return commandOf(NAMES.get(String(source)) ?? '', Number(count), rest)
}

export function commandOf(name: string, keys: number, all: readonly unknown[]): Command {
  const raw = all.slice(keys)
  return {
    name,
    keys: all.slice(0, keys).map(String),
    // Frames are read from `raw`.
    args: raw.map((each) => (typeof each === 'object' ? '' : String(each))),
    raw,
  }
}
