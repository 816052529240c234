// CPU time of synchronous work. Unlike elapsed time, it does not grow on a busy machine.

/** The CPU time of `work` in ms. */
export function cpuMs(work: () => void): number {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}
