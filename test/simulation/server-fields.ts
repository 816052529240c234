// The fields of a record that plain commands read and that scripts tell those who wait, as lua/ has them: beside the memory store, which
// has them in forms of its own. A purge of a key with variants leaves stamps, and the variants as they were.

import type { Lifetimes } from '@stampede/core'

interface Entry {
  /** The fence it was stored with, and that of its last extension. */
  readonly stored: string
  readonly fence: string
  readonly made: number
  fresh: number
  readonly lifetimes: Lifetimes
  readonly frame: Uint8Array
  readonly patch: Uint8Array | undefined
}

export interface Stamps {
  readonly purged: number
  readonly softened: number
}

const NO_STAMPS: Stamps = { purged: 0, softened: 0 }

export class ServerFields {
  readonly #now: () => number
  readonly #entries = new Map<string, Entry>()
  readonly #stamps = new Map<string, Stamps>()
  /** By record: the newest fence that was given. */
  readonly #newest = new Map<string, string>()
  #highest = 0
  /** By record and fence: until when it is fresh, if nothing is purged. */
  readonly #freshUntil = new Map<string, number>()

  /** Milliseconds of the server. */
  constructor(now: () => number) {
    this.#now = now
  }

  granted(record: string, fence: string): void {
    this.#newest.set(record, fence)
    this.#highest = Math.max(this.#highest, Number(fence))
  }

  newestOf(record: string): string {
    return this.#newest.get(record) ?? ''
  }

  /** By the server's clock; unknown of what was lost. */
  freshUntil(record: string, fence: string): number | undefined {
    return this.#freshUntil.get(`${record} ${fence}`)
  }

  stampsOf(group: string): Stamps {
    return this.#stamps.get(group) ?? NO_STAMPS
  }

  committed(record: string, fence: string, frame: Uint8Array, lifetimes: Lifetimes): void {
    // Said twice, it is written once.
    if (this.#entry(record)?.fence === fence) return
    this.#write(record, { stored: fence, fence, frame, patch: undefined }, lifetimes)
  }

  extended(record: string, fence: string, patch: Uint8Array, lifetimes: Lifetimes): void {
    const before = this.#entry(record)
    if (before === undefined || before.fence === fence) return
    this.#write(record, { ...before, fence, patch }, lifetimes)
  }

  outdated(record: string, fence: string, soft: boolean): void {
    const entry = this.#entry(record)
    if (entry?.fence !== fence) return
    if (soft) entry.fresh = Math.min(entry.fresh, this.#now())
    else this.dropped(record)
  }

  dropped(record: string): void {
    this.#entries.delete(record)
  }

  /** As lua/purge-1.lua stamps what may have variants: nothing that was given till now is greater. */
  purged(record: string, soft: boolean): void {
    const { purged, softened } = this.stampsOf(record)
    const entry = this.#entry(record)
    if (!soft) this.dropped(record)
    else if (entry !== undefined) entry.fresh = Math.min(entry.fresh, this.#now())
    const stamp = this.#highest
    this.#stamps.set(record, soft ? { purged, softened: stamp } : { purged: stamp, softened })
  }

  /** HMGET: null for what there is not. */
  read(record: string, names: readonly string[]): Array<Buffer | null> {
    const entry = this.#entry(record)
    const stamps = this.#stamps.get(record)
    const values: Record<string, Uint8Array | string | undefined> = {
      life: entry && lifeOf(entry),
      frame: entry?.frame,
      patch: entry?.patch,
      purged: stamps && String(stamps.purged),
      softened: stamps && String(stamps.softened),
    }
    return names.map((name) => {
      const value = values[name]
      if (value === undefined) return null
      return typeof value === 'string' ? Buffer.from(value) : Buffer.from(value)
    })
  }

  #write(
    record: string,
    what: Pick<Entry, 'stored' | 'fence' | 'frame' | 'patch'>,
    lifetimes: Lifetimes,
  ): void {
    const made = this.#now()
    const fresh = made + lifetimes.freshMs
    this.#entries.set(record, { ...what, made, fresh, lifetimes })
    this.#freshUntil.set(`${record} ${what.fence}`, fresh)
  }

  #entry(record: string): Entry | undefined {
    const entry = this.#entries.get(record)
    return entry && this.#now() < entry.made + entry.lifetimes.physicalMs ? entry : undefined
  }
}

function lifeOf({ stored, fence, made, fresh, lifetimes }: Entry): string {
  const { staleWhileRevalidateMs, staleIfErrorMs, keepMs } = lifetimes
  const times = [made, fresh, staleWhileRevalidateMs, staleIfErrorMs, keepMs]
  return [stored, fence, ...times.map((each) => each.toFixed(0))].join(' ')
}

/** What lua/commit-2.lua tells those who wait, but for the name by which each asked; undefined: it is too long. */
export function toldOf(
  now: number,
  args: readonly string[],
  frame: Uint8Array,
): Buffer | undefined {
  const [, fence, , fresh, swr, sie, keep, , key = '', , longest] = args
  if (frame.byteLength > Number(longest)) return undefined
  const head = ['', fence, now, fresh, swr, sie, keep, Buffer.byteLength(key)].join(' ')
  return Buffer.concat([Buffer.from(`${head}\n${key}`), frame])
}
