// The one place where the harness looks again and again, for what sends no event.
import { setTimeout as sleep } from 'node:timers/promises'

/** Resolves once `condition` holds; rejects with `what` when it does not within `withinMs`. */
export async function waitUntil(
  what: string,
  condition: () => boolean | Promise<boolean>,
  withinMs = 10_000,
): Promise<void> {
  const deadline = performance.now() + withinMs
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`Not within ${withinMs} ms: ${what}`)
    await sleep(5)
  }
}
