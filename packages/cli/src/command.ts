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

export interface Command {
  readonly summary: string
  readonly usage: string
  /** One line for each option, for `--help`. */
  readonly help: ReadonlyArray<readonly [option: string, meaning: string]>
  readonly options: NonNullable<ParseArgsConfig['options']>
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
