// The link between a process and the server, and the commands on it.

import * as scripts from '../../packages/redis/src/protocol/scripts.generated.ts'
import type { Random } from '../fuzz/leaks/random.ts'
import type { Figures } from './figures.ts'
import type { Kernel } from './kernel.ts'
import type { RecordRules } from './record-rules.ts'
import type { Command, SimRedis } from './sim-redis.ts'
import type { Judge } from './violation.ts'

/** The state of the link between one process and the server. */
export interface Link {
  /** Nothing arrives. */
  isCut: { commands: boolean; messages: boolean }
  /** Share of replies and messages that are lost, and of messages that arrive twice. */
  loss: number
  repeats: number
  /** The greatest delay on top of the usual one. */
  delayMs: number
}

/** Properties that all connections share. */
export interface Net {
  readonly kernel: Kernel
  readonly server: SimRedis
  readonly random: Random
  readonly figures: Figures
  readonly judge: Judge
  readonly records: RecordRules
  /** The time since the last fault of this process or the server. */
  readonly isCalm: (forMs: number) => boolean
}

/** The scripts of lua/, by name. */
export const SOURCES = new Map(Object.values(scripts).map(({ name, source }) => [name, source]))
const NAMES = new Map(
  Object.values(scripts).flatMap(({ name, sha1, source }) => [
    [sha1, name],
    [source, name],
  ]),
)

/** A script of EVALSHA or EVAL, known by its digest or by its text. */
export function scriptCommand([source, count, ...rest]: readonly unknown[]): Command {
  return commandOf(NAMES.get(String(source)) ?? '', Number(count), rest)
}

export function commandOf(name: string, keys: number, all: readonly unknown[]): Command {
  const raw = all.slice(keys)
  return {
    name,
    keys: all.slice(0, keys).map(String),
    // Frames are taken from `raw`, as bytes.
    args: raw.map((each) => (typeof each === 'object' ? '' : String(each))),
    raw,
  }
}
