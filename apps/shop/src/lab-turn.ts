// One run at a time in the whole lab, so that nobody's figures are disturbed, and the load has a ceiling.

import { Problem } from './answer.ts'

export interface Turn {
  /** Throws a 409 `Problem` while another run is on. */
  take<T>(run: () => Promise<T>): Promise<T>
}

export function createTurn(): Turn {
  let taken = false
  return {
    async take(run) {
      if (taken) {
        throw new Problem(409, 'The lab is busy', 'One run at a time; try again when it is over.')
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
