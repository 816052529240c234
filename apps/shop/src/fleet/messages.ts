// Messages between the parent process of the fleet and its shop processes.

/** One event of a Stampede, as data that a message can carry. */
export interface ProcessEvent {
  /** Wall clock in ms, with fractions, so that events of several processes can be ordered. */
  readonly atMs: number
  readonly type: string
  readonly key: string
  /** Number of equal hits that this event stands for. */
  readonly count: number
  /** Fields of the event as text, for example `fence`, `stale` and `why`. */
  readonly fields: Readonly<Record<string, string>>
}

/** A call of a shop process to the database in the parent. */
export type DatabaseCall =
  | { readonly call: 'query'; readonly sql: string; readonly params: readonly unknown[] }
  | { readonly call: 'begin' }
  | {
      readonly call: 'run'
      readonly transaction: number
      readonly sql: string
      readonly params: readonly unknown[]
    }
  | { readonly call: 'end'; readonly transaction: number; readonly commit: boolean }

/** An error that crosses a process boundary. `status` and `title` exist for a `Problem`. */
export interface SentError {
  readonly message: string
  readonly status?: number
  readonly title?: string
}

export type FromProcess =
  | { readonly type: 'ready'; readonly port: number }
  | { readonly type: 'events'; readonly events: readonly ProcessEvent[] }
  | { readonly type: 'origin-run'; readonly route: string; readonly runId: string | null }
  | { readonly type: 'database'; readonly id: number; readonly request: DatabaseCall }
  | { readonly type: 'purged'; readonly id: number; readonly error?: SentError }

export type ToProcess =
  | {
      readonly type: 'result'
      readonly id: number
      readonly rows?: readonly unknown[]
      readonly error?: SentError
    }
  | { readonly type: 'purge'; readonly id: number; readonly path: string }

/** Wall clock in ms, with fractions. */
export function wallMs(): number {
  return performance.timeOrigin + performance.now()
}
