// A Map whose entries end. What has ended is found when somebody asks for it, and by and by as others are added,
// so that no timer is needed and no call takes long.

interface Expiring {
  readonly expiresAt: number
}

/** Each addition looks at so many entries whether they have ended. */
const SWEPT_AT_ONCE = 4
const FULL_SWEEP_EVERY_MS = 1_000

export class ExpiringMap<V extends Expiring> {
  readonly #entries = new Map<string, V>()
  readonly #now: () => number
  readonly #ended: (entry: V) => void
  #cursor: Iterator<[string, V]> | undefined
  #sweptAt: number = Number.NEGATIVE_INFINITY

  /** `ended` is told of each entry that was dropped because it had ended. */
  constructor(now: () => number, ended: (entry: V) => void = () => {}) {
    this.#now = now
    this.#ended = ended
  }

  /** Counts what has ended and was not found yet. */
  get size(): number {
    return this.#entries.size
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined || this.#now() < entry.expiresAt) return entry
    this.#drop(key, entry)
    return undefined
  }

  set(key: string, entry: V): void {
    const now = this.#now()
    for (let i = 0; i < SWEPT_AT_ONCE; i++) this.#sweepNext(now)
    this.#entries.set(key, entry)
  }

  /** Before its time: `ended` is not told. */
  delete(key: string): void {
    this.#entries.delete(key)
  }

  /** Drops all that has ended, though not more often than each second. Returns whether anything was. */
  sweep(): boolean {
    const now = this.#now()
    if (now < this.#sweptAt + FULL_SWEEP_EVERY_MS) return false
    this.#sweptAt = now
    const before = this.#entries.size
    for (const [key, entry] of this.#entries) if (now >= entry.expiresAt) this.#drop(key, entry)
    return this.#entries.size < before
  }

  clear(): void {
    this.#entries.clear()
  }

  #drop(key: string, entry: V): void {
    this.#entries.delete(key)
    this.#ended(entry)
  }

  #sweepNext(now: number): void {
    this.#cursor ??= this.#entries.entries()
    const { done, value } = this.#cursor.next()
    if (done === true) this.#cursor = undefined
    else if (now >= value[1].expiresAt) this.#drop(...value)
  }
}
