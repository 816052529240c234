// Medians and percentiles: what a row of the page is made of.

/** `values` of the rounds of one figure, in order. */
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

/** Round by round: what was measured under the same load of the machine is compared. */
export const ratios = (values: readonly number[], floors: readonly number[]): number[] =>
  values.map((value, round) => value / (floors[round] ?? Number.NaN))

/** The value that a part `q` of `sorted` does not exceed; between two, the mean for the median alone. */
export function quantile(sorted: readonly number[], q: number): number {
  if (sorted.length === 0) return 0
  const at = q * (sorted.length - 1)
  if (q === 0.5) return ((sorted[Math.floor(at)] ?? 0) + (sorted[Math.ceil(at)] ?? 0)) / 2
  return sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)] ?? 0
}

export const ascending = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b)
