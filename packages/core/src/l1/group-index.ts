// Which keys there are of a group, for those that are variants: so that purging a group finds them all.

import { groupOf } from '../ports/key.ts'

export class GroupIndex {
  readonly #variants = new Map<string, Set<string>>()

  add(key: string): void {
    const group = groupOf(key)
    if (group === key) return
    const keys = this.#variants.get(group)
    if (keys === undefined) this.#variants.set(group, new Set([key]))
    else keys.add(key)
  }

  remove(key: string): void {
    const group = groupOf(key)
    const keys = group === key ? undefined : this.#variants.get(group)
    if (keys?.delete(key) && keys.size === 0) this.#variants.delete(group)
  }

  /** The group's own key, and every variant. */
  keysOf(group: string): string[] {
    return [group, ...(this.#variants.get(group) ?? [])]
  }

  get size(): number {
    return this.#variants.size
  }
}
