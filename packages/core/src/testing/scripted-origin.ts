// An origin whose runs are counted, and end when the test ends them.

export interface Run<T> {
  resolve(value: T): void
  reject(error: unknown): void
}

export class ScriptedOrigin<T> {
  readonly runs: Array<Run<T>> = []

  get calls(): number {
    return this.runs.length
  }

  /** Pass this as the factory. */
  readonly factory = (): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      this.runs.push({ resolve, reject })
    })

  run(index: number): Run<T> {
    const run = this.runs[index]
    if (run === undefined) throw new Error(`the origin ran ${this.calls} times, not ${index + 1}`)
    return run
  }
}
