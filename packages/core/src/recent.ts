// What was worked out of late, so as not to do it again. The oldest goes first, whether or not it was asked for since: to keep
// count of that would cost more than it saves.

export class Recent<Key, Value> {
  readonly #known = new Map<Key, Value>()
  readonly #most: number

  constructor(most: number) {
    this.#most = most
  }

  get(key: Key): Value | undefined {
    return this.#known.get(key)
  }

  set(key: Key, value: Value): void {
    const known = this.#known
    if (known.size === this.#most && !known.has(key)) {
      const oldest = known.keys().next()
      if (!oldest.done) known.delete(oldest.value)
    }
    known.set(key, value)
  }
}
