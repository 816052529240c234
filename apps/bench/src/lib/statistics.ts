// Medians, ratios and percentiles for the pages of the benchmarks.

/** Median, minimum and maximum of one figure over all rounds. */
export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

export function spreadOf(values: readonly number[]): Spread {
  const sorted = ascending(values)
  return { median: quantile(sorted, 0.5), min: sorted[0] ?? 0, max: sorted.at(-1) ?? 0 }
}

export const medianOf = (values: readonly number[]): number => spreadOf(values).median

/**
 * Divides round by round, so that both figures were measured under the same load of the machine.
 */
export const ratios = (values: readonly number[], floors: readonly number[]): number[] =>
  values.map((value, round) => value / (floors[round] ?? Number.NaN))

/**
 * The smallest value of which a share `q` of `sorted` is not larger. For the median of an even
 * number, the mean of two.
 */
export function quantile(sorted: readonly number[], q: number): number {
  if (sorted.length === 0) return 0
  const at = q * (sorted.length - 1)
  if (q === 0.5) return ((sorted[Math.floor(at)] ?? 0) + (sorted[Math.ceil(at)] ?? 0)) / 2
  return sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)] ?? 0
}

export const ascending = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b)
