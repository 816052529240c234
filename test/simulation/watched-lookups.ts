// By which of the three ways each look-up of a process was answered: what it was told with the word that woke it, a plain read of the
// record, or the script. Seen from outside: by what was sent meanwhile.

import type { StampedeStore } from '@stampede/core'
import { names } from '../../packages/redis/src/keys.ts'
import type { Figures } from './figures.ts'
import type { Command } from './sim-redis.ts'

const { record } = names('stampede')

export class WatchedLookups {
  readonly #figures: Figures
  /** Records and names by which was asked since their last look-up began. */
  readonly #sent = new Set<string>()

  constructor(figures: Figures) {
    this.#figures = figures
  }

  sent({ name, keys, args }: Command): void {
    if (name === 'HMGET') this.#sent.add(keys[0] ?? '')
    else if (name === 'lookup-or-lease') this.#sent.add(args[0] ?? '')
  }

  watch(store: StampedeStore): StampedeStore {
    const lookup = store.lookup.bind(store)
    store.lookup = async (key, request) => {
      const [read, scripted] = [record(key), request.token]
      this.#sent.delete(read)
      this.#sent.delete(scripted)
      const reply = await lookup(key, request)
      if (this.#sent.delete(scripted)) this.#figures.scripted += 1
      else if (this.#sent.delete(read)) this.#figures.readFirst += 1
      else this.#figures.told += 1
      return reply
    }
    return store
  }
}
