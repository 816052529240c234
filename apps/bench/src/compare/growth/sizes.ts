// The sizes that `npm run bench` measures: numbers of keys, processes, callers and clients.

export const FLEET_ORIGIN_MS = 100

export interface Sizes {
  /** Number of keys, and bytes per value. */
  readonly keys: ReadonlyArray<readonly [keys: number, bytes: number]>
  /** How long each of the two rounds loads pages. */
  readonly pagesMs: number
  readonly processes: readonly number[]
  readonly waiters: readonly number[]
  readonly crowds: readonly number[]
  readonly rounds: number
}

export const FULL: Sizes = {
  keys: [
    [100, 256],
    [1_000, 256],
    [10_000, 256],
    [100_000, 256],
    [1_000_000, 256],
    [100_000, 2_300],
  ],
  pagesMs: 4_000,
  processes: [1, 2, 4, 8, 16],
  waiters: [1, 10, 100, 1_000, 10_000],
  crowds: [100, 1_000, 10_000],
  rounds: 3,
}

export const QUICK: Sizes = {
  keys: [
    [100, 256],
    [10_000, 256],
  ],
  pagesMs: 1_000,
  processes: [1, 4],
  waiters: [1, 1_000],
  crowds: [100, 1_000],
  rounds: 1,
}
