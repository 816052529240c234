// An LRU bounded by bytes. It knows which of its keys are variants of a group, so that a purge of the
// group finds them all.

import { LRUCache } from 'lru-cache'
import { groupOf } from '../ports/key.ts'

export class GroupedLru<V extends object> extends LRUCache<string, V> {
  readonly #variants = new Map<string, Set<string>>()

  constructor(options: LRUCache.Options<string, V, unknown>) {
    super({
      ...options,
      // Also called for a value that was too large and never stored.
      dispose: (_value, key, reason) => {
        if (reason !== 'set') this.#remove(key)
      },
    })
  }

  override set(key: string, value: V): this {
    super.set(key, value)
    // A value that is too large is not stored, but the old one is gone all the same.
    if (this.has(key)) this.#add(key)
    else this.#remove(key)
    return this
  }

  /** The group's own key, and every variant. */
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
