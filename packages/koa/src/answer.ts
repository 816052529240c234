// When a middleware may return, apart from when the work behind it is done: as soon as ctx holds the answer.

export interface Answer {
  begun: boolean
  readonly promise: Promise<void>
  readonly given: () => void
  readonly threw: (error: unknown) => void
}

export function createAnswer(): Answer {
  let given: () => void = () => {}
  let threw: (error: unknown) => void = () => {}
  const promise = new Promise<void>((resolve, reject) => {
    given = resolve
    threw = reject
  })
  return { begun: false, promise, given, threw }
}
