// Episodes that once broke a rule, made small: `npm run simulate -- --seed ... --shrink` prints the
// line. A seed keeps its meaning as long as the schedule is made in the same way. An episode that
// no longer shows its fault is found again by its mutant.

export interface Regression {
  /** The fault that the episode found. */
  readonly was: string
  /** Arguments of `npm run simulate --`. */
  readonly line: string
}

export const REGRESSIONS: readonly Regression[] = [
  {
    was: 'a handler continued past its lease after its machine was suspended',
    line: '--seed 7 --processes 100 --minutes 3 --fleet 1 --faults 2 --calls 320',
  },
  {
    was: 'a rule that noticed the end of a lease left the commands of that process unsent',
    line: '--seed 81280042 --processes 100 --minutes 3 --fleet 1 --faults 12 --calls 2870,2882',
  },
  {
    was: 'new purges got the positions of purges lost in a fail-over, and no reader noticed',
    line: '--seed 110037 --processes 100 --minutes 3 --fleet 2 --faults 15,22,47 --calls 3338,9195,9198,9378,9406,9942',
  },
]
