// An LRU map bounded by bytes, with an index of its keys by vary group. A purge of a group uses the
// index to find all variants.

import { LRUCache } from 'lru-cache'
import { groupOf } from '../ports/key.ts'

export class GroupedLru<V extends object> extends LRUCache<string, V> {
  readonly #variants = new Map<string, Set<string>>()

  constructor(options: LRUCache.Options<string, V, unknown>) {
    super({
      ...options,
      // lru-cache also calls this for a value that was too large and never stored.
      dispose: (_value, key, reason) => {
        if (reason !== 'set') this.#remove(key)
      },
    })
  }

  override set(key: string, value: V): this {
    super.set(key, value)
    // A value that is too large is not stored, but it does remove the old one.
    if (this.has(key)) this.#add(key)
    else this.#remove(key)
    return this
  }

  /** The plain key of a vary group, and the keys of its variants. */
  keysOf(group: string): string[] {
    return [group, ...(this.#variants.get(group) ?? [])]
  }

  purge(group: string): void {
    for (const key of this.keysOf(group)) this.delete(key)
  }

  #add(key: string): void {
    const group = groupOf(key)
    if (group === key) return
    const keys = this.#variants.get(group)
    if (keys === undefined) this.#variants.set(group, new Set([key]))
    else keys.add(key)
  }

  #remove(key: string): void {
    const group = groupOf(key)
    const keys = group === key ? undefined : this.#variants.get(group)
    if (keys?.delete(key) && keys.size === 0) this.#variants.delete(group)
  }
}
