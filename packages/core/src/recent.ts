// A bounded cache of computed values. It evicts the oldest value, even if that value was used
// recently, because tracking each use would cost more than it saves.

export class Recent<Value> extends Map<string, Value> {
  readonly #most: number

  constructor(most: number) {
    super()
    this.#most = most
  }

  override set(key: string, value: Value): this {
    if (this.size === this.#most && !this.has(key)) {
      const oldest = this.keys().next()
      if (!oldest.done) this.delete(oldest.value)
    }
    return super.set(key, value)
  }
}
