// What was worked out of late, so as not to do it again. The oldest goes first, whether or not it was asked for since: to keep
// count of that would cost more than it saves.

export class Recent<Value> {
  readonly #known = new Map<string, Value>()
  readonly #most: number

  constructor(most: number) {
    this.#most = most
  }

  get(key: string): Value | undefined {
    return this.#known.get(key)
  }

  set(key: string, value: Value): void {
    const known = this.#known
    if (known.size === this.#most && !known.has(key)) {
      const oldest = known.keys().next()
      if (!oldest.done) known.delete(oldest.value)
    }
    known.set(key, value)
  }
}

/** V8 copies shorter parts of a string. */
const SHORTEST_PART = 13

/** For what is remembered: a part of a string may hold the whole of it, such as a header or a body, for as long as it stays. */
export function ownText(text: string): string {
  return text.length < SHORTEST_PART ? text : (JSON.parse(JSON.stringify(text)) as string)
}
