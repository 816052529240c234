// CPU time of synchronous work, compared with that of other work. No test has a bound in
// milliseconds, because even CPU time grows on a machine with other load.

/** The CPU time of `work` in ms. */
function cpuMs(work: () => void): number {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

const ATTEMPTS = 5
/** Less CPU time than this counts as this much, because its ratio to other work would be chance. */
const LEAST_MS = 1

/**
 * How many times more CPU time `work` takes than `base`: the least of five attempts, because other
 * load makes either slower. Ends early with a ratio that is at most `enough`.
 */
export function timesSlower(work: () => void, base: () => void, enough = 0): number {
  let least = Number.POSITIVE_INFINITY
  for (let attempt = 0; attempt < ATTEMPTS && least > enough; attempt++) {
    const workMs = cpuMs(work)
    const isShort = workMs <= enough * LEAST_MS
    const baseMs = isShort ? LEAST_MS : Math.max(LEAST_MS, Math.min(cpuMs(base), cpuMs(base)))
    least = Math.min(least, workMs / baseMs)
  }
  return least
}

const PARTS = 64

/**
 * Whether `read` takes linear time: one input of `length` takes about as much CPU time as 64 inputs
 * of a 64th. With quadratic time, it takes 64 times as much.
 */
export function isLinear<Input>(
  inputOf: (length: number) => Input,
  read: (input: Input) => unknown,
  length: number,
): boolean {
  const [long, short] = [inputOf(length), inputOf(Math.ceil(length / PARTS))]
  const readAll = () => {
    for (let part = 0; part < PARTS; part++) read(short)
  }
  const enough = Math.sqrt(PARTS)
  return timesSlower(() => read(long), readAll, enough) <= enough
}
