// One call, watched for so long: what came of it, and when.
import { setTimeout as sleep } from 'node:timers/promises'
import { NotSupported } from './peer.ts'
import type { Answer } from './verdict.ts'

export async function watch(call: () => Promise<unknown>, limitMs: number): Promise<Answer> {
  const since = performance.now()
  const ms = () => performance.now() - since
  const settled = started(call).then(
    (value): Answer => ({ kind: 'value', value, ms: ms() }),
    (error: unknown): Answer => {
      if (error instanceof NotSupported) throw error
      return { kind: 'error', message: messageOf(error), ms: ms() }
    },
  )
  const late = sleep(limitMs, undefined, { ref: false }).then(
    (): Answer => ({ kind: 'none', ms: limitMs }),
  )
  return Promise.race([settled, late])
}

/** Calls until one gets `wanted`; the time counts from the first call. The last answer says what came instead. */
export async function until(
  wanted: string,
  call: () => Promise<unknown>,
  limitMs: number,
): Promise<Answer & { readonly reached: boolean }> {
  const since = performance.now()
  for (;;) {
    const answer = await watch(call, limitMs)
    const ms = performance.now() - since
    const reached = answer.kind === 'value' && answer.value === wanted
    if (reached || ms > limitMs) return { ...answer, ms, reached }
    await sleep(50)
  }
}

/** Also what is thrown at once is an answer. */
const started = async (call: () => Promise<unknown>): Promise<unknown> => call()

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)
