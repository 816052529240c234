// Types of redlock, which exports none to ESM: only the parts that the benchmarks use.
declare module 'redlock' {
  export default class Redlock {
    constructor(clients: readonly unknown[], settings: Readonly<Record<string, number>>)
    on(event: 'error', listener: () => void): void
    acquire(keys: readonly string[], ttlMs: number): Promise<{ release(): Promise<unknown> }>
    using<T>(keys: readonly string[], ttlMs: number, fn: () => Promise<T>): Promise<T>
  }
}
