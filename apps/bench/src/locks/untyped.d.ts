// redlock exports no types to ESM: as much of it as is used here.
declare module 'redlock' {
  export default class Redlock {
    constructor(clients: readonly unknown[], settings: Readonly<Record<string, number>>)
    on(event: 'error', listener: () => void): void
    acquire(keys: readonly string[], ttlMs: number): Promise<{ release(): Promise<unknown> }>
  }
}
