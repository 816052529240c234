// Process warnings. docs/guide/events.md has a row for each code, with the case in which it occurs.

/** A test checks that the table in the guide has exactly the codes that the sources use. */
export type WarningCode = `STAMPEDE_${string}`

/** Texts that this process has emitted. Hardly any text has a path, but an app may purge many. */
const emitted = new Set<string>()
const MOST_TEXTS = 100

/** Emits a `StampedeWarning`, once per process for each text. */
export function warnOnce(code: WarningCode, text: string): void {
  if (emitted.has(text) || emitted.size >= MOST_TEXTS) return
  emitted.add(text)
  warn(code, text)
}

/** Emits a `StampedeWarning`. */
export function warn(code: WarningCode, text: string): void {
  process.emitWarning(text, { type: 'StampedeWarning', code })
}
