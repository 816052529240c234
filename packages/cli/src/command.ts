// The shape of a command, and its parsed arguments.

import type { ParseArgsConfig } from 'node:util'
import type { ExitCode } from './errors.ts'
import type { Settings } from './fleet.ts'
import type { Terminal } from './terminal.ts'

export type Values = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

export interface Invocation {
  readonly values: Values
  /** Arguments without a dash. */
  readonly names: readonly string[]
  readonly settings: Settings
  readonly terminal: Terminal
}

/**
 * The options as `--help` shows them. `--name` is a flag, and `--name VALUE` takes a value. Other
 * lines are only shown.
 */
export type Options = ReadonlyArray<
  readonly [option: string, meaning: string, repeats?: 'may be repeated']
>

export interface Command {
  readonly summary: string
  readonly usage: string
  readonly options: Options
  run(invocation: Invocation): Promise<ExitCode>
}

export function text(values: Values, name: string): string | undefined {
  const value = values[name]
  return typeof value === 'string' ? value : undefined
}

export function flag(values: Values, name: string): boolean {
  return values[name] === true
}

export function list(values: Values, name: string): readonly string[] {
  const value = values[name]
  return Array.isArray(value) ? value : []
}

/** The options for `parseArgs`. */
export function parsedOptions(options: Options): NonNullable<ParseArgsConfig['options']> {
  const parsed = options.flatMap(([option, , repeats]) => {
    const [, name, value] = /^--([\w-]+)( .+)?$/.exec(option) ?? []
    if (name === undefined) return []
    const type = value === undefined ? ('boolean' as const) : ('string' as const)
    return [[name, { type, multiple: repeats !== undefined }]] as const
  })
  return Object.fromEntries(parsed)
}
