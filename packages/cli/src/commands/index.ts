// All commands by name, in the order of the help.

import type { Command } from '../command.ts'
import { doctor } from './doctor.ts'
import { get } from './get.ts'
import { idempotency } from './idempotency.ts'
import { keys } from './keys.ts'
import { locks } from './locks.ts'
import { purge } from './purge.ts'
import { top } from './top.ts'
import { why } from './why.ts'

export const COMMANDS: Readonly<Record<string, Command>> = {
  top,
  why,
  get,
  keys,
  purge,
  locks,
  idempotency,
  doctor,
}
