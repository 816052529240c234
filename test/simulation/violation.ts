// A rule that was broken. The first one ends the episode.

export class Violation extends Error {
  readonly rule: string
  /** What the lines of the transcript have in common that are about it. */
  readonly about: string

  constructor(rule: string, detail: string, about: string) {
    super(`${rule}: ${detail}`)
    this.name = 'Violation'
    this.rule = rule
    this.about = about
  }
}

/** Keeps the first: rules are asked in callbacks that nobody may throw in. */
export class Judge {
  first: Violation | undefined

  fail(rule: string, detail: string, about: string): void {
    this.first ??= new Violation(rule, detail, about)
  }
}
