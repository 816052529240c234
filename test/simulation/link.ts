// The link between a process and the server, and the commands on it.

import { eachOf } from '../../packages/redis/src/connection/script-batch.ts'
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

/** Without the one that runs another script for many keys: the simulation does that itself. */
const SCRIPTS = Object.values(scripts).filter((script) => script !== scripts.runEach)
/** The scripts of lua/, by name. */
export const SOURCES = new Map(SCRIPTS.map(({ name, source }) => [name, source]))
const NAMES = new Map(
  SCRIPTS.flatMap(({ name, sha1, source }) => [
    [sha1, name],
    [source, name],
  ]),
)

/** Names of the scripts that run each of these for many keys. */
const EACH = new Map(
  SCRIPTS.flatMap((script) => {
    const { sha1, source } = eachOf(script)
    return [sha1, source].map((known) => [known, script.name] as const)
  }),
)

/** A script of EVALSHA or EVAL, known by its digest or by its text. */
export function scriptCommand([source, count, ...rest]: readonly unknown[]): Command {
  const each = EACH.get(String(source))
  if (each !== undefined) return eachCommand(each, Number(count), rest)
  return commandOf(NAMES.get(String(source)) ?? '', Number(count), rest)
}

/** One command with a script for many keys: a command for each key, which are executed at once. */
function eachCommand(name: string, count: number, all: readonly unknown[]): Command {
  const keys = all.slice(0, count)
  const [letters, ...values] = all.slice(count)
  let at = 0
  const columns = [...String(letters)].map((letter) => {
    const begin = at
    at += letter === 's' ? 1 : count
    return (row: number) => values[begin + (letter === 's' ? 0 : row)]
  })
  const rows = keys.map((key, row) => commandOf(name, 1, [key, ...columns.map((of) => of(row))]))
  return { name, keys: keys.map(String), args: [], raw: [], rows }
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
