// Allows one run at a time in the lab, so that runs do not disturb each other and the load is
// bounded.

import { Problem } from './response.ts'

export interface Turn {
  /** Throws a 409 `Problem` during another run. */
  take<T>(run: () => Promise<T>): Promise<T>
}

export function createTurn(): Turn {
  let taken = false
  return {
    async take(run) {
      if (taken) {
        throw new Problem(
          409,
          'The lab is busy',
          'The lab runs one test at a time. Try again when this one is over.',
        )
      }
      taken = true
      try {
        return await run()
      } finally {
        taken = false
      }
    },
  }
}
