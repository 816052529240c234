// The log of purges of the simulated server: lua/append-purge-3.lua and lua/read-purges-3.lua on arrays.

interface Logged {
  readonly position: number
  readonly prev: number
  readonly event: string
}

export class ServerPurges {
  /** Names the run of the server. */
  run = 'first'
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
    if (this.#meta === undefined || known > this.#meta.last) {
      const first = this.#meta === undefined ? Math.max(now, known + 1) : known + 1
      this.#log = []
      this.#meta = { last: first, floor: first }
    }
    const { last } = this.#meta
    const position = Math.max(now, last + 1)
    this.#log.push({ position, prev: last, event })
    if (event.startsWith('m')) this.#marks.set(event.slice(1), position)
    this.#meta.last = position
    this.#announce(`${position} ${last} ${event}`)
    return ['APPENDED', text(now), text(position), text(last)]
  }

  read(known: number, run: string, most: number): string[] {
    const now = this.#micros()
    const isLost = this.#meta === undefined
    const meta = this.#meta ?? { last: now, floor: now }
    const first = this.#log.find(({ position }) => position > known)
    const isBehind = known > meta.last || (known > 0 && first !== undefined && first.prev < known)
    const follows = first === undefined ? known === meta.last : first.prev === known
    // Where the log was cut since, only the same run of the server is known to have the same history.
    const isUnknown = known > 0 && !follows && meta.floor <= known && run !== this.run
    const isForked = isBehind || isUnknown
    if (isForked || isLost) {
      this.#log = []
      meta.last = isLost ? Math.max(now, known + 1) : Math.max(meta.last, known) + 1
      meta.floor = meta.last
    }
    this.#meta = meta
    const page = (whole: string, partial: string, events: ReadonlyArray<[number, string]>) => {
      const taken = events.slice(0, most)
      const isWhole = taken.length < most
      const last = isWhole ? meta.last : (taken.at(-1)?.[0] ?? meta.last)
      const head = [text(now), text(last), text(meta.floor), this.run]
      const rest = taken.flatMap(([position, event]) => [text(position), event])
      return [isWhole ? whole : partial, ...head, ...rest]
    }
    const missed = known > 0 && !isLost ? this.#since(known) : undefined
    if (missed !== undefined) {
      const events = missed.map(({ position, event }): [number, string] => [position, event])
      return page('LOG', 'PART', events)
    }
    const newer = [...this.#marks].filter(([, position]) => position > known)
    const events = newer.map(([name, position]): [number, string] => [position, name])
    return page(
      'MARKS',
      'MORE',
      events.sort(([a], [b]) => a - b),
    )
  }

  last(): Array<string | null> {
    if (this.#meta === undefined) return [null, null]
    return [text(this.#meta.last), text(this.#meta.floor)]
  }

  /** All but the newest of them are cut off. */
  trim(most: number): void {
    this.#log = this.#log.slice(Math.max(0, this.#log.length - most))
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
