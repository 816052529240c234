// A broken rule. The first one ends the episode.

export class Violation extends Error {
  readonly rule: string
  /** Text that the related lines of the transcript contain. */
  readonly about: string

  constructor(rule: string, detail: string, about: string) {
    super(`${rule}: ${detail}`)
    this.name = 'Violation'
    this.rule = rule
    this.about = about
  }
}

/** Stores the first violation, because rules run in callbacks that must not throw. */
export class Judge {
  first: Violation | undefined

  fail(rule: string, detail: string, about: string): void {
    this.first ??= new Violation(rule, detail, about)
  }
}
