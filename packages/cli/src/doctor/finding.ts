// A finding of the doctor: one line with a fault or an observation, and its fix.

export interface Finding {
  readonly level: 'ok' | 'warn' | 'fail'
  readonly check: string
  readonly message: string
  /** Undefined for `ok`. */
  readonly fix?: string
}

export function ok(check: string, message: string): Finding {
  return { level: 'ok', check, message }
}

export function warn(check: string, message: string, fix: string): Finding {
  return { level: 'warn', check, message, fix }
}

export function fail(check: string, message: string, fix: string): Finding {
  return { level: 'fail', check, message, fix }
}
