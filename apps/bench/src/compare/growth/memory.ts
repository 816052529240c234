// Memory of this process after a garbage collection. Needs --expose-gc.

export function memoryInUse(): number {
  if (globalThis.gc === undefined) throw new Error('run with --expose-gc')
  for (let i = 0; i < 3; i++) globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
