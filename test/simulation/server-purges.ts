// The log of purges of the simulated server: lua/append-purge-3.lua and lua/read-purges-3.lua on arrays.

interface Logged {
  readonly position: number
  readonly prev: number
  readonly event: string
}

export class ServerPurges {
  #meta: { last: number; floor: number } | undefined
  #log: Logged[] = []
  readonly #marks = new Map<string, number>()
  readonly #micros: () => number
  readonly #announce: (message: string) => void

  constructor(micros: () => number, announce: (message: string) => void) {
    this.#micros = micros
    this.#announce = announce
  }

  append(event: string, known: number): string[] {
    const now = this.#micros()
    if (this.#meta === undefined) {
      const first = Math.max(now, known)
      this.#meta = { last: first, floor: first }
    }
    const { last } = this.#meta
    const position = Math.max(now, last + 1, known + 1)
    this.#log.push({ position, prev: last, event })
    if (event.startsWith('m')) this.#marks.set(event.slice(1), position)
    this.#meta.last = position
    this.#announce(`${position} ${last} ${event}`)
    return ['APPENDED', text(now), text(position), text(last)]
  }

  read(known: number): string[] {
    const now = this.#micros()
    const isLost = this.#meta === undefined
    const meta = this.#meta ?? { last: now, floor: now }
    const covers = known > 0 && known <= meta.last && !isLost
    if (known > meta.last || isLost) {
      this.#log = []
      meta.last = Math.max(meta.last, known)
      meta.floor = meta.last
    }
    this.#meta = meta
    const head = [text(now), text(meta.last), text(meta.floor)]
    const missed = covers ? this.#since(known) : undefined
    if (missed !== undefined) {
      const events = missed.flatMap(({ position, event }) => [text(position), event])
      return ['LOG', ...head, ...events]
    }
    const newer = [...this.#marks].filter(([, position]) => position > known)
    newer.sort((a, b) => a[1] - b[1])
    return ['MARKS', ...head, ...newer.flatMap(([name, position]) => [text(position), name])]
  }

  last(): Array<string | null> {
    if (this.#meta === undefined) return [null, null]
    return [text(this.#meta.last), text(this.#meta.floor)]
  }

  /** Undefined: the log does not reach back that far. */
  #since(known: number): Logged[] | undefined {
    let at = this.#log.length
    while (at > 0 && (this.#log[at - 1] as Logged).position > known) at -= 1
    const missed = this.#log.slice(at)
    let before = known
    for (const { position, prev } of missed) {
      if (prev !== before) return undefined
      before = position
    }
    return before === this.#meta?.last ? missed : undefined
  }
}

/** Lua's `%.0f`. */
function text(position: number): string {
  return position.toFixed(0)
}
