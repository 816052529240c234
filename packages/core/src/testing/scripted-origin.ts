// An origin whose runs are counted, and end when the test ends them.

import { settled } from './manual-clock.ts'

/** Both methods end the run. Their promises resolve when all promises have settled. */
export interface Run<T> {
  resolve(value: T): Promise<void>
  reject(error: unknown): Promise<void>
}

export class ScriptedOrigin<T> {
  readonly runs: Array<Run<T>> = []

  get calls(): number {
    return this.runs.length
  }

  /** Pass this as the factory. */
  readonly factory = (): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      const then = <A>(end: (argument: A) => void) => {
        return (argument: A) => {
          end(argument)
          return settled()
        }
      }
      this.runs.push({ resolve: then(resolve), reject: then(reject) })
    })

  run(index: number): Run<T> {
    const run = this.runs[index]
    if (run === undefined) throw new Error(`the origin ran ${this.calls} times, not ${index + 1}`)
    return run
  }
}
