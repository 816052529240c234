// The purge log of the simulated server: lua/append-purge-3.lua and lua/read-purges-3.lua on
// arrays.

import { lacks, positionOf } from '../../packages/redis/src/stores/purge-news.ts'

interface Logged {
  readonly id: string
  readonly prev: string
  readonly event: string
}

export class ServerPurges {
  /** The run ID of the server. */
  run = 'first'
  #meta: { last: string; floor: number } | undefined
  #log: Logged[] = []
  readonly #marks = new Map<string, number>()
  readonly #micros: () => number
  readonly #announce: (message: string) => void

  constructor(micros: () => number, announce: (message: string) => void) {
    this.#micros = micros
    this.#announce = announce
  }

  append(event: string, known: string, random: string): string[] {
    const now = this.#micros()
    if (this.#meta === undefined || lacks(this.#meta.last, known)) {
      const after = positionOf(known) + 1
      const first = this.#meta === undefined ? Math.max(now, after) : after
      this.#log = []
      this.#meta = { last: idOf(first, random), floor: first }
    }
    const prev = this.#meta.last
    const position = Math.max(now, positionOf(prev) + 1)
    const id = idOf(position, random)
    this.#log.push({ id, prev, event })
    if (event.startsWith('m')) this.#marks.set(event.slice(1), position)
    this.#meta.last = id
    this.#announce(`${id} ${prev} ${event}`)
    return ['APPENDED', text(now), id, prev]
  }

  read(known: string, run: string, most: number, random: string): string[] {
    const now = this.#micros()
    const at = positionOf(known)
    const isLost = this.#meta === undefined
    const meta = this.#meta ?? { last: idOf(now, random), floor: now }
    const first = this.#log.find(({ id }) => positionOf(id) > at)
    const isBehind = lacks(meta.last, known) || (first !== undefined && lacks(first.prev, known))
    const follows = positionOf(first?.prev ?? meta.last) === at
    // If the log was trimmed since, only the same run of the server is known to have the same
    // history.
    const isUnknown = at > 0 && !follows && meta.floor <= at && run !== this.run
    const isForked = isBehind || isUnknown
    if (isForked || isLost) {
      this.#log = []
      const last = isLost ? Math.max(now, at + 1) : Math.max(positionOf(meta.last), at) + 1
      meta.last = idOf(last, random)
      meta.floor = last
    }
    this.#meta = meta
    const page = (whole: string, partial: string, events: ReadonlyArray<[string, string]>) => {
      const taken = events.slice(0, most)
      const isWhole = taken.length < most
      const last = isWhole ? meta.last : (taken.at(-1)?.[0] ?? meta.last)
      const head = [text(now), last, text(meta.floor), this.run]
      return [isWhole ? whole : partial, ...head, ...taken.flat()]
    }
    const missed = at > 0 && !isLost ? this.#since(at) : undefined
    if (missed !== undefined) {
      const events = missed.map(({ id, event }): [string, string] => [id, event])
      return page('LOG', 'PART', events)
    }
    const newer = [...this.#marks].filter(([, position]) => position > at)
    newer.sort(([, a], [, b]) => a - b)
    const events = newer.map(([name, position]): [string, string] => [idOf(position, '0'), name])
    return page('MARKS', 'MORE', events)
  }

  last(): Array<string | null> {
    if (this.#meta === undefined) return [null, null]
    return [this.#meta.last, text(this.#meta.floor)]
  }

  /** Older events are trimmed. */
  trim(most: number): void {
    this.#log = this.#log.slice(Math.max(0, this.#log.length - most))
  }

  /** Undefined: the log does not reach back that far. */
  #since(known: number): Logged[] | undefined {
    let at = this.#log.length
    while (at > 0 && positionOf((this.#log[at - 1] as Logged).id) > known) at -= 1
    const missed = this.#log.slice(at)
    const before = missed[0]?.prev ?? this.#meta?.last ?? '0-0'
    return positionOf(before) === known ? missed : undefined
  }
}

function idOf(position: number, random: string): string {
  return `${text(position)}-${random}`
}

/** Lua's `%.0f`. */
function text(position: number): string {
  return position.toFixed(0)
}
