// The transcript of an episode: its last lines, for a reader of a failure, and a hash of all lines.
// The same seed gives the same hash.

const KEPT = 2_000

export class Transcript {
  /** FNV-1a of all lines. */
  hash = 0x811c9dc5
  lines = 0
  readonly #last: string[] = []

  add(atMs: number, who: string, what: string): void {
    const line = `${(atMs / 1000).toFixed(4).padStart(10)} ${who.padEnd(6)} ${what}`
    for (let i = 0; i < line.length; i++) {
      this.hash = Math.imul(this.hash ^ line.charCodeAt(i), 0x01000193)
    }
    this.#last[this.lines % KEPT] = line
    this.lines += 1
  }

  /** The last lines that `about` accepts. */
  tail(most: number, about: (line: string) => boolean = () => true): string[] {
    const start = Math.max(0, this.lines - KEPT)
    const all = Array.from({ length: this.lines - start }, (_, i) => this.#last[(start + i) % KEPT])
    return (all as string[]).filter(about).slice(-most)
  }
}
