// The one place where the harness polls, for conditions without an event.
import { setTimeout as sleep } from 'node:timers/promises'

/** Resolves once `condition` holds. Rejects with `what` if it does not hold within `withinMs`. */
export async function waitUntil(
  what: string,
  condition: () => boolean | Promise<boolean>,
  withinMs = 30_000,
): Promise<void> {
  const deadline = performance.now() + withinMs
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`Not within ${withinMs} ms: ${what}`)
    await sleep(5)
  }
}
