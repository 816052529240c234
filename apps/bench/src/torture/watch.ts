// One call with a time limit, and its result.
import { setTimeout as sleep } from 'node:timers/promises'
import { NotSupported } from './peer.ts'
import type { Result } from './verdict.ts'

export async function watch(call: () => Promise<unknown>, limitMs: number): Promise<Result> {
  const since = performance.now()
  const ms = () => performance.now() - since
  const settled = started(call).then(
    (value): Result => ({ kind: 'value', value, ms: ms() }),
    (error: unknown): Result => {
      if (error instanceof NotSupported) throw error
      return { kind: 'error', message: messageOf(error), ms: ms() }
    },
  )
  const late = sleep(limitMs, undefined, { ref: false }).then(
    (): Result => ({ kind: 'none', ms: limitMs }),
  )
  return Promise.race([settled, late])
}

/** Repeats the call until it returns `wanted`. The time counts from the first call. */
export async function until(
  wanted: string,
  call: () => Promise<unknown>,
  limitMs: number,
): Promise<Result & { readonly reached: boolean }> {
  const since = performance.now()
  for (;;) {
    const result = await watch(call, limitMs)
    const ms = performance.now() - since
    const reached = result.kind === 'value' && result.value === wanted
    if (reached || ms > limitMs) return { ...result, ms, reached }
    await sleep(50)
  }
}

/** Turns a synchronous throw into a rejection. */
const started = async (call: () => Promise<unknown>): Promise<unknown> => call()

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)
