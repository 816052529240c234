// Exit codes, and the errors that lead to them.

/** `found`: the command found a problem, found nothing, or was refused. */
export const EXIT = { ok: 0, found: 1, usage: 2, unavailable: 3 } as const
export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** The arguments are wrong. The message has the fix. */
export class UsageError extends Error {
  readonly code = 'USAGE'
}

/** Redis cannot be reached, or does not reply in time. */
export class Unreachable extends Error {
  readonly code = 'UNREACHABLE'
}

/** Something that must work on every Redis has another result. */
export class Unexpected extends Error {
  readonly code = 'UNEXPECTED'
}

const USAGE_CODES: readonly unknown[] = ['USAGE', 'ERR_STAMPEDE_OPTION', 'ERR_INVALID_URL']

export function exitCodeOf(error: unknown): ExitCode {
  const { code } = error as { readonly code?: unknown }
  if (USAGE_CODES.includes(code) || String(code).startsWith('ERR_PARSE_ARGS')) return EXIT.usage
  if (code === 'UNREACHABLE' || code === 'ERR_STAMPEDE_STORE_UNAVAILABLE') return EXIT.unavailable
  return EXIT.found
}
