// Episodes that broke a rule once, made small: `npm run simulate -- --seed ... --shrink` prints the line. A seed means what it meant for
// as long as the schedule is made as it is; an episode that no longer shows what it is here for is taken anew from its mutant.

export interface Regression {
  /** What was wrong. */
  readonly was: string
  /** As `npm run simulate --` takes it. */
  readonly line: string
}

export const REGRESSIONS: readonly Regression[] = [
  {
    was: 'a value that was purged stood in for an error of the origin',
    line: '--seed 18 --processes 100 --minutes 3 --fleet 1 --faults none --calls 2978,2996,2998,3006',
  },
  {
    was: 'who waited for a refresh that was purged looked again beside a newer flight',
    line: '--seed 5 --processes 100 --minutes 3 --fleet 1 --faults 9 --calls 261,266,280,289',
  },
]
